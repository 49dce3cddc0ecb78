package tidy

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// sources are files by path, in the form that parse takes.
type sources map[string]string

// core returns a file of a pure package with these imports and this body.
func core(imports, body string) sources {
	text := "package core\n"
	for name := range strings.FieldsSeq(imports) {
		text += fmt.Sprintf("import %q\n", name)
	}
	return sources{"master/core/core.go": text + body}
}

// cases show for each rule what it must refuse (refused is where, and part of the complaint) and what it must leave
// alone.
var cases = []struct {
	rule, name string
	sources    sources
	refused    []string
}{
	{"sources parse", "half a file", sources{"api/a.go": "package api\nfunc {"}, []string{"api/a.go: does not parse"}},
	{"sources parse", "a whole one", sources{"api/a.go": "package api"}, nil},

	{"imports point down", "up", sources{"api/a.go": "package api\nimport \"github.com/tenderhq/tender/master\""},
		[]string{"api/a.go:2: api may not import master; imports point down: it may import none"}},
	{"imports point down", "down", sources{"master/m.go": "package master\nimport \"github.com/tenderhq/tender/api\""}, nil},
	{"imports point down", "sideways", sources{"agent/a.go": "package agent\nimport \"github.com/tenderhq/tender/framework\""},
		[]string{"agent/a.go:2: agent may not import framework"}},
	{"imports point down", "taken out", sources{"master/core/c.go": "package core\nimport \"github.com/tenderhq/tender/allocator/remote\""},
		[]string{"master/core/c.go:2: master/core may not import allocator/remote"}},
	{"imports point down", "the most specific row counts", sources{
		"master/internal/raftlog/r.go": "package raftlog\nimport \"github.com/tenderhq/tender/internal/logpb\"",
		"master/m.go":                  "package master\nimport \"github.com/tenderhq/tender/internal/logpb\""},
		[]string{"master/m.go:2: master may not import internal/logpb"}},
	{"imports point down", "a test may look up", sources{"api/a_test.go": "package api\nimport \"github.com/tenderhq/tender/framework\""}, nil},
	{"imports point down", "an example's test may not look inside",
		sources{"examples/e/e_test.go": "package main\nimport \"github.com/tenderhq/tender/internal/testing/memnet\"\nimport \"github.com/tenderhq/tender/framework/frameworktest\""},
		[]string{"examples/e/e_test.go:2: examples/e may not import internal/testing/memnet"}},
	{"imports point down", "no floor", sources{"attic/a.go": "package attic", "attic/b.go": "package attic"},
		[]string{"attic/a.go:1: package attic stands on no floor; add its row to floors in tools/tidy/tables_test.go"}},

	{"folders point down", "up, and sideways", sources{
		"internal/x/x.go": "package x\nimport \"github.com/tenderhq/tender/client\"",
		"master/m.go":     "package master\nimport \"github.com/tenderhq/tender/agent/proc\""},
		[]string{"internal/x/x.go:2: internal/x (in internal) may not import client (in client)", "master/m.go:2"}},
	{"folders point down", "down, within, and in a test", sources{
		"internal/web/w.go":   "package web\nimport \"github.com/tenderhq/tender/client\"",
		"master/m.go":         "package master\nimport \"github.com/tenderhq/tender/master/core\"",
		"agent/a_test.go":     "package agent\nimport \"github.com/tenderhq/tender/framework/frameworktest\"",
		"agent/commands/c.go": "package commands\nimport \"github.com/tenderhq/tender/framework/executor\""}, nil},

	{"the SDK is light", "a third party, two packages away", sources{
		"framework/f.go":     "package framework\nimport \"github.com/tenderhq/tender/internal/wire\"",
		"internal/wire/w.go": "package wire\nimport \"github.com/rs/zerolog\""},
		[]string{"internal/wire/w.go:2: the SDK would bring github.com/rs/zerolog to all its users (framework > internal/wire)"}},
	{"the SDK is light", "gRPC, tests and what stands beside", sources{
		"framework/f.go":               "package framework\nimport \"google.golang.org/grpc/codes\"\nimport \"net/http\"",
		"framework/f_test.go":          "package framework\nimport \"pgregory.net/rapid\"",
		"framework/frameworktest/f.go": "package frameworktest\nimport \"github.com/rs/zerolog\"",
		"master/m.go":                  "package master\nimport \"github.com/rs/zerolog\""}, nil},
	{"the SDK is light", "a name that only begins alike", sources{"api/a.go": "package api\nimport \"google.golang.org/grpcish\""},
		[]string{"api/a.go:2"}},

	{"process is the program's own", "flags, environment, exit, signals", sources{
		"agent/a.go": "package agent\nimport (\n\"flag\"\n\"os\"\n\"os/signal\"\n)\nfunc f() { os.Getenv(\"X\")\nos.Exit(1) }"},
		[]string{"agent/a.go:3: agent uses flag", "agent/a.go:5: agent uses os/signal", "agent/a.go:7: agent uses os.Getenv", "agent/a.go:8: agent uses os.Exit"}},
	{"process is the program's own", "under another name", sources{"agent/a.go": "package agent\nimport sys \"os\"\nvar leave = sys.Exit"},
		[]string{"agent/a.go:3: agent uses os.Exit"}},
	{"process is the program's own", "a helper of an example", sources{"examples/e/e.go": "package e\nimport \"flag\""},
		[]string{"examples/e/e.go:2"}},
	{"process is the program's own", "where it belongs", sources{
		"main.go":                     "package main\nimport \"os\"\nfunc main() { os.Exit(1) }",
		"tender/internal/cli/c.go":    "package cli\nimport \"github.com/spf13/cobra\"",
		"examples/e/main.go":          "package main\nimport \"flag\"",
		"agent/a_test.go":             "package agent\nimport \"os\"\nvar x = os.Getenv(\"X\")",
		"agent/a.go":                  "package agent\nimport \"os\"\nvar x = os.Remove",
		"framework/executor/start.go": "package executor\nimport \"os\"\nvar x, y = os.LookupEnv(\"TENDER_EXECUTOR_SOCKET\")"}, nil},
	{"process is the program's own", "a local value called os", sources{
		"agent/a.go": "package agent\nimport \"os\"\nvar _ = os.Remove\nfunc f(os struct{ Exit int }) int { return os.Exit }"}, nil},

	{"pure reaches no world", "a counter, context, files, a third party", core("sync/atomic context os github.com/rs/zerolog", ""),
		[]string{":2: master/core is pure and may not import sync/atomic", ":3", ":4", ":5: master/core is pure and may not import github.com/rs/zerolog"}},
	{"pure reaches no world", "a clock", core("time", "func f() { _ = time.Now()\n_ = time.After }"),
		[]string{":3: master/core is pure and may not use time.Now; time arrives in event.At", ":4"}},
	{"pure reaches no world", "a lock", core("sync", "var m sync.Mutex\nvar once = sync.OnceValue(f)"),
		[]string{":3: master/core is pure and may not use sync.Mutex"}},
	{"pure reaches no world", "chance", core("math/rand/v2", "var n = rand.IntN(6)\nvar r = rand.New(rand.NewPCG(1, 2))\nvar m = r.IntN(6)"),
		[]string{":3: master/core is pure and may not use math/rand/v2.IntN"}},
	{"pure reaches no world", "printing", core("fmt", "func f() { fmt.Println() }"), []string{":3"}},
	{"pure reaches no world", "arithmetic", core("time fmt errors slices", "var d = 3 * time.Second\nvar s = fmt.Sprint(d)"), nil},
	{"pure reaches no world", "elsewhere, and in tests", sources{
		"master/m.go":           "package master\nimport \"sync\"",
		"allocator/remote/r.go": "package remote\nimport \"context\"",
		"master/core/c_test.go": "package core\nimport \"os\""}, nil},

	{"pure starts nothing", "all five", core("", "func f(c chan int) {\ngo f(nil)\nc <- 1\n<-c\nselect {}\nprintln()\n}"),
		[]string{":2: master/core is pure and may hold no channel", ":3: master/core is pure and may hold no goroutine",
			":4: master/core is pure and may hold no send", ":5: master/core is pure and may hold no receive",
			":6: master/core is pure and may hold no select", ":7: master/core is pure and may hold no print"}},
	{"pure starts nothing", "a shell may", sources{"master/m.go": "package master\nfunc f() { go f() }"}, nil},

	{"pure order is sorted", "a named map", core("", "type ids map[string]int\nfunc f(m ids) { for range m {\n} }"),
		[]string{"master/core/core.go:3: ranging over a map gives another order each time; range over slices.Sorted"}},
	{"pure order is sorted", "a map of another package of ours", sources{
		"api/a.go":            "package api\ntype Labels map[string]string",
		"allocator/a.go":      "package allocator\nimport \"github.com/tenderhq/tender/api\"\ntype View struct{ Labels api.Labels }\nfunc (v View) f() { for range v.Labels {\n} }",
		"master/core/core.go": "package core\nimport \"github.com/tenderhq/tender/allocator\"\nfunc f(v *allocator.View) { for range v.Labels {\n} }"},
		[]string{"allocator/a.go:4", "master/core/core.go:3"}},
	{"pure order is sorted", "a map by type parameter", core("", "func f[M ~map[K]V, K comparable, V any](m M) { for range m {\n} }"),
		[]string{":2"}},
	{"pure order is sorted", "an iterator over a map", core("maps", "func f(m map[int]int) { for range maps.Keys(m) {\n} }"),
		[]string{":3: maps.Keys gives another order"}},
	{"pure order is sorted", "gathered but not sorted", core("", "func f(m map[int]int) (s []int) { for k := range m {\ns = append(s, k) }\nreturn s }"),
		[]string{":2"}},
	{"pure order is sorted", "a note without a reason", core("", "func f(m map[int]int) {\n// order: irrelevant because\nfor range m {\n} }"),
		[]string{":4"}},
	{"pure order is sorted", "sorted keys", core("maps slices", "func f(m map[int]int) { for range slices.Sorted(maps.Keys(m)) {\n} }"), nil},
	{"pure order is sorted", "gathered and sorted", core("slices", "func f(m map[int]int) (s []int) { for k, v := range m {\nif v > 0 {\ns = append(s, k) }}\nslices.Sort(s)\nreturn s }"), nil},
	{"pure order is sorted", "a reason above and one beside", core("",
		"func f(m map[int]int) {\n// order: irrelevant because a sum has none\nfor range m {\n}\nfor range m { // order: irrelevant because a sum has none\n} }"), nil},
	{"pure order is sorted", "slices, numbers, strings, another package called maps", core("",
		"var maps struct{ Keys func() []int }\nfunc f(s []int) { for range s {\n}\nfor range 3 {\n}\nfor range maps.Keys() {\n} }"), nil},
	{"pure order is sorted", "not pure", sources{"master/m.go": "package master\nfunc f(m map[int]int) { for range m {\n} }"}, nil},

	{"packages promise", "none", sources{"api/a.go": "package api", "api/a_test.go": "// Package api is tested.\npackage api"},
		[]string{"api/a.go:1: package api makes no promise"}},
	{"packages promise", "two", sources{"api/a.go": "// Package api is.\npackage api", "api/b.go": "// Package api does.\npackage api"},
		[]string{"api/b.go:1: package api has its promise in api/a.go too"}},
	{"packages promise", "of something else", sources{"api/a.go": "// The nouns.\npackage api"},
		[]string{"api/a.go:1: the comment does not name its package; begin it with \"Package api ...\""}},
	{"packages promise", "one", sources{"api/a.go": "// Package api is.\npackage api", "api/b.go": "package api",
		"main.go": "// Tender shares a cluster.\npackage main"}, nil},

	{"tests do not sleep", "asleep", sources{"agent/a_test.go": "package agent\nimport \"time\"\nfunc f() { time.Sleep(1) }"},
		[]string{"agent/a_test.go:3: the test sleeps; advance the clock or await a signal"}},
	{"tests do not sleep", "awake", sources{"agent/a_test.go": "package agent\nimport \"time\"\nvar d = time.Second",
		"agent/a.go": "package agent\nimport \"time\"\nfunc f() { time.Sleep(1) }"}, nil},

	{"nothing is left over", "in Go, proto and Makefile", sources{"api/a.go": "package api\n// TO" + "DO: more",
		"api/v1/a.proto": "// FIX" + "ME", "Makefile": "all:\n\t# XX" + "X"},
		[]string{"Makefile:2", "api/a.go:2: TO" + "DO was left behind", "api/v1/a.proto:1"}},
	{"nothing is left over", "words that hold the letters", sources{"api/a.go": "package api\n// mktemp XXXX" + "XX, AUTO" + "DOC",
		"api/v1/a.pb.go": "// Code generated by x. DO NOT EDIT.\n\npackage apiv1\n// TO" + "DO"}, nil},

	{"files hold one noun", "too long", sources{"api/a.go": "package api\n" + strings.Repeat("\n", fileLinesMax)},
		[]string{"api/a.go:601: a.go has 601 lines, more than 600; one file per noun"}},
	{"files hold one noun", "just fits, or generated", sources{"api/a.go": "package api\n" + strings.Repeat("\n", fileLinesMax-1),
		"api/v1/a.pb.go": "// Code generated by x. DO NOT EDIT.\n\npackage apiv1\n" + strings.Repeat("\n", fileLinesMax)}, nil},
}

// TestRules shows every rule what it must refuse and what not.
func TestRules(t *testing.T) {
	byName := map[string]rule{}
	for _, r := range rules {
		byName[r.name] = r
	}
	refusing := map[string]bool{}
	for _, c := range cases {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			refusing[c.rule] = refusing[c.rule] || len(c.refused) > 0
			found := byName[c.rule].check(parse(c.sources))
			if len(found) != len(c.refused) {
				t.Fatalf("want %d complaints, got %d: %v", len(c.refused), len(found), found)
			}
			for i, want := range c.refused {
				if got := found[i].String(); !strings.Contains(got, want) {
					t.Errorf("want %q in %q", want, got)
				}
			}
		})
	}
	for _, r := range rules {
		if !refusing[r.name] {
			t.Errorf("no case shows %q refusing anything", r.name)
		}
	}
}

// TestRead shows which files are read.
func TestRead(t *testing.T) {
	got, err := read(fstest.MapFS{
		"api/a.go":               {Data: []byte("package api")},
		"api/v1/a.proto":         {Data: []byte("syntax = \"proto3\";")},
		"api/testdata/broken.go": {Data: []byte("pack")},
		"tools/go.mod":           {Data: []byte("module tools")},
		"tools/t.go":             {Data: []byte("package tools")},
		".git/x.go":              {Data: []byte("package x")},
		".ci/run":                {Data: []byte("make")},
		"Makefile":               {Data: []byte("all:")},
		"README.md":              {Data: []byte("# Tender")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.files) != 1 || got.files[0].path != "api/a.go" || len(got.others) != 3 || len(got.broken) != 0 {
		t.Errorf("read %v, %v, broken %v", got.files, got.others, got.broken)
	}
}

// TestTables refuses rows that nothing can match, and words that are no packages, because they check nothing.
func TestTables(t *testing.T) {
	word := regexp.MustCompile(`^!?([a-z0-9./]*[a-z0-9]|\.|\.\.\.)(/\.\.\.)?$`)
	seen := map[string]bool{}
	for _, row := range floors {
		if seen[row.pkg] {
			t.Errorf("floors: two rows for %s", row.pkg)
		}
		seen[row.pkg] = true
		for name := range strings.FieldsSeq(row.pkg + " " + row.may) {
			if !word.MatchString(name) {
				t.Errorf("floors: row %s: %q is no package", row.pkg, name)
			}
		}
		// What a pure package imports must be as pure as it is itself. Two leaves only compute, but in ways that no
		// core should use: invariant may stop the process, and value looks into types of other packages.
		for name := range strings.FieldsSeq(row.may) {
			name, not := strings.CutPrefix(name, "!")
			if base := strings.TrimSuffix(name, "/..."); within(pure, strings.TrimSuffix(row.pkg, "/...")) && !not &&
				!within(pure+" internal/invariant internal/value", base) {
				t.Errorf("floors: %s is pure and may not have %s", row.pkg, name)
			}
		}
	}
}
