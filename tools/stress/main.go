// Command stress is what `make stress` runs: it builds the tests of each package once, with the race detector where
// there is a C compiler, and runs them again and again, several packages beside each other, under every mode of the table
// below, until the time is over.
// What failed is printed once with how often it failed and where its last output is. It never repeats a failed test
// to see it pass: a test that fails by chance is broken.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A mode is the machine as one round of the tests sees it.
type mode struct {
	name  string
	procs int  // GOMAXPROCS of the tests; 0 = as many as the machine has
	busy  bool // there is a busy loop on each core
}

// Fewer processors show code that waits without yielding, more of them show races, and a busy machine shows timeouts
// that were measured on an idle one. The first mode is the one that finds most.
var modes = []mode{
	{name: "busy", busy: true},
	{name: "GOMAXPROCS=1", procs: 1},
	{name: "GOMAXPROCS=2", procs: 2},
	{name: "GOMAXPROCS=8", procs: 8},
}

func main() {
	log.SetFlags(log.Ltime)
	limit := flag.Duration("for", 55*time.Minute, "start no package's tests after this long")
	rounds := flag.Int("rounds", 0, "end after so many rounds of all packages; 0 = when the time is over")
	each := flag.Duration("timeout", 15*time.Minute, "a package's tests that run for longer are hung: their goroutines are printed")
	atOnce := flag.Int("at-once", 2*runtime.NumCPU(), "how many packages' tests run beside each other")
	only := flag.String("run", "", "only tests that match this, as go test -run")
	folder := flag.String("keep", "", "where the outputs of failures go; default a new temporary folder")
	flag.Parse()
	packages := flag.Args()
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &stress{only: *only, timeout: *each, atOnce: max(*atOnce, 1), results: newResults()}
	if err := s.run(ctx, *folder, packages, *limit, *rounds); err != nil {
		log.Fatal("stress: ", err)
	}
}

type stress struct {
	only    string
	timeout time.Duration
	atOnce  int
	folder  string
	results *results
}

// run returns an error if anything failed, or could not be built. It removes the test binaries.
func (s *stress) run(ctx context.Context, folder string, patterns []string, limit time.Duration, rounds int) error {
	end := time.Now().Add(limit)
	binaries, err := os.MkdirTemp("", "tender-stress-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(binaries)
	s.folder = cmp.Or(folder, binaries+"-failed")
	suites, err := build(ctx, binaries, patterns)
	if err != nil {
		return err
	}
	log.Printf("built the tests of %d packages", len(suites))
	done := 0
	for ctx.Err() == nil && time.Now().Before(end) && (rounds == 0 || done < rounds) {
		if !s.round(ctx, suites, modes[done%len(modes)], end) {
			break
		}
		done++
	}
	return s.results.report(os.Stdout, done)
}

// round runs every package once, several at the same time, and says whether it reached the end of the list.
func (s *stress) round(ctx context.Context, suites []suite, mode mode, end time.Time) bool {
	log.Printf("round: %s", mode.name)
	if mode.busy {
		defer keepBusy()()
	}
	next := make(chan suite)
	var runners sync.WaitGroup
	for range s.atOnce {
		runners.Go(func() {
			for suite := range next {
				s.runSuite(ctx, suite, mode)
			}
		})
	}
	defer runners.Wait()
	defer close(next)
	for _, suite := range suites {
		if ctx.Err() != nil || time.Now().After(end) {
			return false
		}
		next <- suite
	}
	return true
}

// heldFor is how long a test's processes may hold its outputs open after its end.
const heldFor = time.Minute

func (s *stress) runSuite(ctx context.Context, suite suite, mode mode) {
	args := []string{"-test.count=1", "-test.timeout=" + s.timeout.String(), "-test.v=test2json"}
	if s.only != "" {
		args = append(args, "-test.run="+s.only)
	}
	cmd := exec.CommandContext(ctx, suite.binary, args...)
	cmd.Dir, cmd.WaitDelay = suite.dir, heldFor
	cmd.Env = os.Environ()
	if mode.procs > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprint("GOMAXPROCS=", mode.procs))
	}
	output, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return // it was interrupted, so its output proves nothing
	}
	s.results.countRun()
	if err == nil {
		return
	}
	for _, name := range failures(output) {
		log.Printf("FAILED %s %s (%s)", suite.path, name, mode.name)
		s.results.add(failure{pkg: suite.path, test: name}, mode.name, s.keep(suite.path+"."+name, output))
	}
}

// keep writes the output of a failure to a file, in place of that of an earlier failure of the same test, and returns
// the path.
func (s *stress) keep(name string, output []byte) string {
	at := filepath.Join(s.folder, strings.NewReplacer("/", "_", " ", "_").Replace(name)+".log")
	if err := errors.Join(os.MkdirAll(s.folder, 0o755), os.WriteFile(at, output, 0o644)); err != nil {
		return "its output could not be kept: " + err.Error()
	}
	return at
}

// keepBusy starts one busy loop for each core, as separate processes, so that they compete with the tests as other
// programs would. It returns the function that ends them. They also end when this program is gone.
func keepBusy() (end func()) {
	var loops []*exec.Cmd
	for range runtime.NumCPU() {
		loop := exec.Command("sh", "-c", "while kill -0 $PPID 2>/dev/null; do :; done")
		if err := loop.Start(); err != nil {
			log.Printf("stress: no busy loop: %v", err)
			continue
		}
		loops = append(loops, loop)
	}
	return func() {
		for _, loop := range loops {
			_ = loop.Process.Kill()
			_ = loop.Wait() // it was killed, which the error says
		}
	}
}

// A suite is the compiled tests of one package.
type suite struct {
	path   string
	dir    string
	binary string
}

// build compiles the tests of each package that has some.
func build(ctx context.Context, folder string, patterns []string) ([]suite, error) {
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-f",
		"{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}\t{{.Dir}}{{end}}"}, patterns...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var suites []suite
	for line := range strings.Lines(string(out)) {
		path, dir, found := strings.Cut(strings.TrimSpace(line), "\t")
		if !found {
			continue
		}
		binary := filepath.Join(folder, strings.ReplaceAll(path, "/", "_")+".test")
		compile := exec.CommandContext(ctx, "go", append(append([]string{"test", "-c", "-o", binary}, race()...), path)...)
		if out, err := compile.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the tests of %s: %w\n%s", path, err, out)
		}
		suites = append(suites, suite{path: path, dir: dir, binary: binary})
	}
	if len(suites) == 0 {
		return nil, errors.New("no package here has tests")
	}
	return suites, nil
}

// race returns the race detector's flag, if the machine can build with it.
func race() []string {
	cc, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		return nil
	}
	if _, err := exec.LookPath(strings.TrimSpace(string(cc))); err != nil {
		return nil
	}
	return []string{"-race"}
}
