# Needs Go and make, nothing else. `make` is the contributor's loop, `make help` names the rest.

# This folder is trusted by whoever runs make in it: git need not doubt its owner (root in CI), and go need not ask it.
export GOFLAGS := $(shell go env GOFLAGS) -buildvcs=false
VERSION = $(shell git -c safe.directory='$(CURDIR)' describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  = $(shell git -c safe.directory='$(CURDIR)' rev-parse HEAD 2>/dev/null || echo unknown)
STAMP   = -X github.com/tenderhq/tender/internal/version.Version=$(VERSION) \
          -X github.com/tenderhq/tender/internal/version.Commit=$(COMMIT)

# The race detector needs a C compiler; without one the tests still run.
RACE = $(if $(shell command -v "$$(go env CC)"),-race)

# These take longest, and wait most of that time: they begin first, so that the others run beside them.
LONGEST = ./tender/internal/cli ./framework/frameworktest

# Such tests wait for other processes most of their time, so more of them run at once than there are processors.
CPUS    := $(shell getconf _NPROCESSORS_ONLN)
AT_ONCE = -p $(shell echo $$(($(CPUS) + $(CPUS) / 2))) -parallel $(shell echo $$(($(CPUS) * 2)))

SHELL       := bash
.SHELLFLAGS := -o pipefail -c

.DEFAULT_GOAL := quick
.PHONY: quick help build demo demo-jobs demo-rdd demo-share locality test test-ui test-long stress check format vet lint proto components tidy-modules darwin exported api \
        vulnerabilities generate rewrite bench bench-agent bench-allocator bench-micro check-cost sim mutants fuzz chaos chaos-agent mesos release test-release test-alerts clean

quick: build format vet ## Build, the quick checks, the unit tests: a minute, before every push
	go test -short -timeout 5m ./...
	@echo 'make: built, checked, tested'

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Without gRPC's pages of traces: they are templates, for which the linker would keep every method of every type. The
# program is a seventh smaller then (TestProgramHasNoTemplates).
build: ## bin/tender
	CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -ldflags '$(STAMP)' -o bin/tender .

demo: build ## A cluster and a framework at work on this machine; CHAOS=1 kills parts of it meanwhile
	go run ./tools/demo $(if $(CHAOS),-chaos) count

demo-jobs: build ## A job of each type; a manager, an agent and the leading master are killed meanwhile
	go run ./tools/demo jobs

GB ?= 1
demo-rdd: build ## A small Spark at work on a GB of points, cached and not, and an executor killed: GB=0.1 for less
	go run ./tools/demo -gb $(GB) rdd

demo-share: build ## Jobs and a small Spark share one cluster, fairly and by priority: who has what, as a chart
	go run ./tools/demo share

# Properties draw the same cases each time, so that a failure is the code's and not the draw's; make stress draws new ones.
quick test: export RAPID_SEED ?= 1

# The helper of a task has hardly any of Go's memory where that was tried, on amd64; elsewhere, and with the tag wholeforks,
# it has a copy of all of it. Both ways are tested.
test: ## What CI runs: every test, with the race detector
	go test $(RACE) -timeout 15m $(AT_ONCE) $(LONGEST) ./...
	go test -tags wholeforks ./agent/walls/spaces
	@test -n "$(CI)" || echo 'test: every package passed$(if $(RACE),, (without the race detector: no C compiler here))'

# mesos-go is fetched by its module, tools/mesosgo; without a network there is nothing to run.
mesos: build ## Clients of Apache Mesos that others wrote (mesos-go) run on Tender, unmodified, while parts of it are killed
	@go -C tools/mesosgo mod download || { echo 'mesos: skipped, as mesos-go can not be fetched'; exit 0; }; \
	go -C tools/mesosgo vet ./... && go -C tools/mesosgo test -count=1 -timeout 15m ./...

test-ui: ## The page in a real headless Chromium, with a real cluster under it: IMAGES=1 writes the pictures of the docs and of how views look anew
	go test -count=1 -v -timeout 15m -run 'TestThePageInABrowser|TestPeopleLogInToThePage' ./tender/internal/cli $(if $(IMAGES),-args -images)

test-long: ## Every test in its long form, never from the cache
	TENDER_TEST_LONG=1 go test $(RACE) -count=1 -timeout 2h ./...

stress: ## Every package's tests again and again, on few and many processors and on a busy machine: ARGS='-for 20m ./agent/...'
	go run ./tools/stress $(ARGS)

check: format vet lint proto components exported tidy-modules darwin vulnerabilities check-cost ## Everything that is checked without running the tests
	@echo 'check: all good'

format:
	@bad=$$(gofmt -l $$(find . -name '*.go' -not -path './.*')); \
	test -z "$$bad" || { echo "not formatted; run gofmt -w on:"; echo "$$bad"; exit 1; }

vet:
	go vet ./...

lint: .tools/golangci-lint
	.tools/golangci-lint run

# Also holds the committed generated code against a fresh one.
proto: .tools/buf
	.tools/buf lint
	@rm -rf .tools/fresh; .tools/buf generate -o .tools/fresh
	@for f in $$(cd .tools/fresh && find . -name '*.pb.go') $$(find api internal -name '*.pb.go'); do \
		cmp -s $$f .tools/fresh/$$f || bad="$$bad $$f"; done; \
	test -z "$$bad" || { echo "not what the .proto files say; run make generate, delete what has no .proto:$$bad"; exit 1; }

# Holds the components of the page against what templ makes of them.
components: .tools/buf
	@rm -rf .tools/components; mkdir .tools/components; cp internal/web/*.templ .tools/components
	@cd .tools/components && ../templ generate -log-level error
	@for f in .tools/components/*_templ.go; do cmp -s $$f internal/web/$${f##*/} || bad="$$bad $${f##*/}"; done; \
	test -z "$$bad" || { echo "not what the .templ files of internal/web say; run make generate:$$bad"; exit 1; }

# The exported API changes on purpose only.
exported:
	@go run ./tools/exported | diff -U0 --label 'api/exported.txt' --label 'the sources' api/exported.txt - || \
		{ echo 'the exported API is not what api/exported.txt says; if that is on purpose, run make api and commit'; exit 1; }

# Counts statements and allocations, so a machine under load finds the same.
check-cost: ## What a step on each hot path costs, and how that grows: ARGS='-only life' or ARGS='-write -why "..."'
	@go run ./tools/cost $(ARGS)

tidy-modules:
	@go mod tidy -diff || { echo 'go.mod or go.sum is not tidy; run go mod tidy'; exit 1; }

# Tender runs on Linux; its CLI and SDK are developed on other machines too. Vet compiles the tests as well.
darwin:
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go vet ./...

# What is known of vulnerabilities stands in a database on the network (vuln.go.dev). Without it, or without the program
# that asks it, nothing is known: that is said, and fails nothing.
vulnerabilities: ## Known vulnerabilities of what our code calls; skipped where their database can't be reached
	@go build -C tools/pinned/vulnerabilities -o ../../../.tools/ tool || { echo 'vulnerabilities: skipped, as govulncheck could not be built'; exit 0; }; \
	said=$$(.tools/govulncheck ./internal/value 2>&1) || case "$$said" in *'fetching vulnerabilities'*) \
		echo 'vulnerabilities: skipped, as their database (vuln.go.dev) can not be reached'; exit 0;; esac; \
	.tools/govulncheck ./...

generate: .tools/buf ## The Go beside the .proto files and the components of the page
	.tools/buf generate
	cd internal/web && ../../.tools/templ generate -log-level error

api: ## Accept the exported API as it is now: api/exported.txt
	go run ./tools/exported > api/exported.new && mv api/exported.new api/exported.txt

locality: ## Measure delay scheduling as the wait grows, and draw it: docs/locality.svg
	go test -v -count=1 -timeout 30m -run 'TestShapeOfThePaper$$' ./examples/locality -args -svg=$(CURDIR)/docs/locality.svg

rewrite: ## Write the transcripts in testdata anew; then read the diff as its reviewer
	go test -count=1 $$(go list -test -f '{{$$p := .}}{{range .Deps}}{{if eq . "github.com/cockroachdb/datadriven"}}{{$$p.ForTest}}{{end}}{{end}}' ./... | sort -u) -rewrite

bench: build ## Measure a whole cluster on this machine: ARGS='-only lives' for a part; ARGS=-help names all
	CGO_ENABLED=0 go build -trimpath -o bin/bench ./tools/bench
	bin/bench -binary bin/tender $(ARGS)

bench-agent: build ## One agent: command tasks with each kind of walls, memory, a thousand tasks; PART=commands ARGS='-spawns 500'
	CGO_ENABLED=0 go build -trimpath -o bin/bench ./tools/bench
	bin/bench -binary bin/tender -only 'agent$(if $(PART),/$(PART))' $(ARGS)

bench-allocator: ## The allocators on Mesos's own shapes, beside its figures; QUICK=1: the corners of the grid
	go test -v -count=1 -timeout 30m -run 'TestTable$$' ./tools/bench/allocator -args -table $(if $(QUICK),-quick,-svg=$(CURDIR)/docs/allocator-growth.svg)

BENCH ?= .
COUNT ?= 6
bench-micro: .tools/buf ## Go's benchmarks: BENCH=regexp COUNT=6; kept in bench.txt, compared with BASE=old.txt
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) -timeout 2h ./... | tee bench.txt
	.tools/benchstat $(BASE) bench.txt

sim: ## The cores joined for a minute, then whole clusters in virtual time; SEED=… or CLUSTER=… replays one of either
ifneq ($(SEED),)
	go test -count=1 -v -run TestSeeds ./framework/frameworktest/internal/sim -args -seed $(SEED)
else ifneq ($(CLUSTER),)
	TENDER_TEST_LONG=1 go test -count=1 -timeout 2h -v -run TestChaos ./framework/frameworktest -args -seed '$(CLUSTER)'
else
	go test -count=1 -v -run TestSeeds ./framework/frameworktest/internal/sim -args -for 1m -from $(or $(FROM),1)
	TENDER_TEST_LONG=1 go test -count=1 -timeout 2h -run TestChaos ./framework/frameworktest
endif

mutants: ## Seeded bugs, each of which the simulation or a named test must find: ONLY=text SEEDS=500
	go run ./tools/mutants $(if $(ONLY),-only '$(ONLY)') $(if $(SEEDS),-seeds $(SEEDS))

FUZZTIME ?= 1m
fuzz: ## What decodes anything that others write, fed with anything: FUZZTIME=1m for each, ONLY=FuzzEntry for one
	@grep -rlE '^func Fuzz' --include='*_test.go' . | sort | while read file; do \
	  for target in $$(grep -oE '^func Fuzz\w+' $$file | cut -d' ' -f2 | grep -E '$(or $(ONLY),.)'); do \
	    go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x ./$$(dirname $$file) || exit 1; \
	  done; \
	done

ROUNDS ?= 100
chaos: build ## The real binary on loopback, broken again and again: ROUNDS=100 SEED=1 ARGS='-masters 5 -only kill/leader'
	CGO_ENABLED=0 go build -trimpath -o bin/chaos ./tools/chaos
	bin/chaos -binary bin/tender -rounds '$(ROUNDS)' $(if $(SEED),-seed '$(SEED)') $(ARGS)

CYCLES ?= 1000
chaos-agent: build ## An agent with 50 executors, killed and started again: CYCLES=1000 ARGS='-isolation namespaces'
	CGO_ENABLED=0 go build -trimpath -o bin/chaos ./tools/chaos
	bin/chaos -binary bin/tender -executors 50 -rounds '$(CYCLES)' $(if $(SEED),-seed '$(SEED)') $(ARGS)

# The engine of Prometheus is fetched by its module, tools/alerts; without a network there is nothing to run.
test-alerts: build ## Each alert rule of deploy/ fires on Prometheus's own engine in its trouble, many of them in a real cluster that has it
	@go -C tools/alerts list -deps -test ./... >/dev/null || { echo 'test-alerts: skipped, as the engine of Prometheus can not be fetched'; exit 0; }; \
	go -C tools/alerts vet ./... && go -C tools/alerts test -count=1 -timeout 15m ./...

# The commit's own time is that of all files, so that whoever builds the same commit gets the same bytes.
release: .tools/nfpm ## Archives, packages, a list of modules and checksums in bin/release: VERSION=v0.1.0
	go run ./tools/release -version '$(if $(findstring command line,$(origin VERSION)),$(VERSION))' -commit '$(COMMIT)' \
		-time "$$(git -c safe.directory='$(CURDIR)' log -1 --format=%ct 2>/dev/null || echo 0)" $(ARGS)

test-release: ## Make a release for this machine, unpack, install and run what is in it
	@$(MAKE) --no-print-directory .tools/nfpm || { echo 'test-release: skipped, as nfpm could not be built'; exit 0; }; \
	TENDER_TEST_RELEASE=$(CURDIR)/.tools/nfpm go test -count=1 -v -timeout 15m ./tools/release

clean: ## Remove what make made
	rm -rf bin .tools bench.txt

# Tools are built once, from the versions that tools/pinned/go.mod pins, and again when those change.
# One rule builds all tools of a go.mod. golangci-lint has its own, so that its linters are the versions it was made with.
.tools/buf: tools/pinned/go.mod tools/pinned/go.sum
	go build -C tools/pinned -o ../../.tools/ tool
	@touch $@

.tools/golangci-lint: tools/pinned/lint/go.mod tools/pinned/lint/go.sum
	go build -C tools/pinned/lint -o ../../../.tools/ tool
	@touch $@

.tools/nfpm: tools/pinned/packager/go.mod tools/pinned/packager/go.sum
	go build -C tools/pinned/packager -o ../../../.tools/ tool
	@touch $@
