// Command mutants asks whether the simulation and the tests would notice a fault. It puts all seeded bugs into one copy
// of the sources, each behind a switch that a variable of the environment turns on, builds each finder once, and runs
// for each bug what is expected to find it: the simulation of the joined cores, a named test where the simulation
// can't see it by nature, or the count of what a step costs where nothing is wrong but that.
//
//	go run ./tools/mutants [-only TEXT] [-seeds 500] [-from 1]
//
// The bugs are in mutants.txt. A bug that nothing finds, or that no longer fits the sources, fails the run.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed mutants.txt
var list string

// simulation is the package whose seeds find most mutants.
const simulation = "./framework/frameworktest/internal/sim"

func main() {
	only := flag.String("only", "", "run only mutants whose name, or whose finder's, contains this")
	seeds := flag.Int("seeds", 500, "how many seeds the simulation may take")
	from := flag.Int("from", 1, "the first seed")
	flag.Parse()
	mutants, err := parse(list)
	if err != nil {
		fail(err)
	}
	folder, err := os.MkdirTemp("", "mutants")
	if err != nil {
		fail(err)
	}
	survivors, err := run(mutants, *only, bench{folder, map[string]func() error{}, *from, *seeds})
	if removed := os.RemoveAll(folder); err == nil {
		err = removed
	}
	if err != nil {
		fail(err)
	}
	if survivors > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mutants:", err)
	os.Exit(1)
}

// run runs the mutants whose name, or whose finder's, contains only, as many at once as there are processors, and prints what has found
// each. It returns how many nothing has found.
func run(mutants []mutant, only string, b bench) (survivors int, err error) {
	if err := copyMutated(b.folder, mutants); err != nil {
		return 0, err
	}
	wanted := mutants[:0:0]
	for _, m := range mutants {
		if strings.Contains(strings.Join([]string{m.name, m.pkg, m.test, m.path}, "\n"), only) {
			wanted = append(wanted, m)
			b.build[m.pkg] = sync.OnceValue(func() error { return b.buildFinder(m.pkg) })
		}
	}
	if len(wanted) == 0 {
		return 0, fmt.Errorf("no name of a mutant or of a finder contains %q", only)
	}
	verdicts := make([]chan verdict, len(wanted))
	next := make(chan int, len(wanted))
	for i := range wanted {
		verdicts[i] = make(chan verdict, 1)
		next <- i
	}
	close(next)
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for i := range next {
				began := time.Now()
				found, err := b.find(wanted[i])
				verdicts[i] <- verdict{found, time.Since(began), err}
			}
		}()
	}
	for i, m := range wanted {
		v := <-verdicts[i]
		if v.err != nil || v.found == "" {
			survivors++
			v.found = "SURVIVES"
		}
		fmt.Printf("%-72s %-40s %4.0f s\n", m.name, v.found, v.took.Seconds())
		if v.err != nil {
			fmt.Printf("\t%v\n", v.err)
		}
	}
	fmt.Printf("%d mutants, %d survive\n", len(wanted), survivors)
	return survivors, nil
}

// verdict is what has found a mutant, "" if nothing has.
type verdict struct {
	found string
	took  time.Duration // with the build of the finder, if it was the first to need it
	err   error
}

// bench is where mutants are built and tried.
type bench struct {
	folder      string                  // a copy of the sources that has all of them
	build       map[string]func() error // builds the finder of a package, once
	from, seeds int                     // of the simulation
}

// buildFinder builds the test program of a package, which finds some of the mutants.
func (b bench) buildFinder(pkg string) error {
	if out, err := b.command("", "go", "test", "-c", "-trimpath", "-o", b.finder(pkg), pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not build with the mutants: %w\n%s", pkg, err, out)
	}
	return nil
}

func (b bench) finder(pkg string) string { return filepath.Join(b.folder, pkg, "finder.test") }

// command is a command in the copy with this mutant turned on. One processor is enough for each, as many run at once.
func (b bench) command(mutant, name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = b.folder
	if mutant != "" {
		c.Env = append(os.Environ(), variable+"="+mutant, "GOMAXPROCS=1")
	}
	return c
}

var (
	failedSeed = regexp.MustCompile(`seed \d+`)
	grows      = regexp.MustCompile(`grows +([0-9.]+) times \(at most ([0-9.]+)\)`)
)

// find runs what is expected to find the mutant and returns what has, "" if nothing has.
func (b bench) find(m mutant) (string, error) {
	if m.path != "" {
		return b.count(m)
	}
	if err := b.build[m.pkg](); err != nil {
		return "", err
	}
	args := []string{"-test.timeout=10m", "-test.failfast", "-test.run=^" + m.test + "$"}
	if m.pkg == simulation {
		args = append(args, "-unexplained", "-from", strconv.Itoa(b.from), "-count", strconv.Itoa(b.seeds))
	}
	finder := b.command(m.name, b.finder(m.pkg), args...)
	finder.Dir = filepath.Join(b.folder, m.pkg)
	out, err := finder.CombinedOutput()
	seed := failedSeed.FindString(string(out))
	switch {
	case err == nil && strings.Contains(string(out), "no tests to run"):
		return "", fmt.Errorf("there is no test %s in %s", m.test, m.pkg)
	case err == nil:
		return "", nil
	case m.pkg != simulation:
		return m.test, nil
	case strings.Contains(string(out), "panic: test timed out"):
		return "", fmt.Errorf("%d seeds took longer than 10 minutes and found nothing: take fewer (-seeds), or a machine with less to do", b.seeds)
	case seed == "":
		return "", fmt.Errorf("the simulation names no seed: %w\n%s", err, out)
	default:
		return seed, nil
	}
}

// count has the costs of the mutant's path counted, and tells by how much they grow if that is more than they may.
func (b bench) count(m mutant) (string, error) {
	out, err := b.command(m.name, "go", "run", "./tools/cost", "-only", m.path).CombinedOutput()
	said := grows.FindStringSubmatch(string(out))
	if said == nil {
		return "", fmt.Errorf("no cost of %q was counted: %w\n%s", m.path, err, out)
	}
	by, _ := strconv.ParseFloat(said[1], 64)
	most, _ := strconv.ParseFloat(said[2], 64)
	if by <= most {
		return "", nil
	}
	return fmt.Sprintf("grows %s times", said[1]), nil
}
