// Command cost counts what one step on a hot path costs and how that grows with what exists beside it, and compares
// both with tools/cost/costs.txt. It counts statements that were executed and allocations, so it needs no clock:
// the result is the same on a slow machine, on a busy one, and under any load. Run it in the project's folder; see
// make check-cost.
//
// Statements are those of Tender's own packages and of the standard library's slices, maps and sort, in whose loops a
// cost per thing that exists hides most easily. They come from the counters of Go's coverage: a benchmark runs N steps
// and then 3N, and the difference divided by 2N is one step without its preparation.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// file has the costs that are allowed.
const file = "tools/cost/costs.txt"

// module is the prefix of our own packages.
const module = "github.com/tenderhq/tender/"

func main() {
	write := flag.Bool("write", false, "write lower costs into "+file+"; a higher one takes -why")
	why := flag.String("why", "", "the reason for costs that are higher now, written beside them")
	only := flag.String("only", "", "only the paths whose names contain this text")
	flag.Parse()
	if err := run(*write, *why, *only); err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

func run(write bool, why, only string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	paths, err := parsePaths(string(text))
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "tender-cost-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	counter := counter{folder: folder, built: map[string]string{}, counted: map[string]cost{}}
	var refused []string
	for i, p := range paths {
		if !strings.Contains(p.name, only) {
			continue
		}
		measured, err := counter.measure(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		found := p.complaints(measured)
		fmt.Printf("%-32s %8.0f statements, %7.1f allocations, grows %5.2f times (at most %.2f)\n", p.name, measured.few.statements,
			measured.few.allocations, measured.growth(), p.growthMax)
		if write && measured.growth() <= p.growthMax && (len(found) == 0 || why != "") {
			paths[i] = p.written(measured, found, why)
			continue
		}
		refused = append(refused, found...)
	}
	if write {
		if err := os.WriteFile(file, []byte(header+formatPaths(paths)), 0o644); err != nil {
			return err
		}
	}
	if len(refused) > 0 {
		return errors.New("a step costs more than it did:\n  " + strings.Join(refused, "\n  ") +
			"\nmend it; or, if it is worth that, say why: make check-cost ARGS='-write -why \"...\"'")
	}
	return nil
}

// counter counts what steps of benchmarks cost.
type counter struct {
	folder  string            // for what is built and counted
	built   map[string]string // test programs by package
	counted map[string]cost   // by package and benchmark: a path's few may be another one's
}

func (c *counter) measure(p path) (m measured, err error) {
	if m.few, err = c.count(p.pkg, p.few); err != nil {
		return m, err
	}
	m.many, err = c.count(p.pkg, p.many)
	return m, err
}

// count returns what one step of a benchmark costs.
func (c *counter) count(pkg, benchmark string) (cost, error) {
	key := pkg + " " + benchmark
	if known, ok := c.counted[key]; ok {
		return known, nil
	}
	const stepsMax = 10_000
	for steps := 100; ; steps *= 10 {
		fewer, err := c.runSteps(pkg, benchmark, steps)
		if err != nil {
			return cost{}, err
		}
		more, err := c.runSteps(pkg, benchmark, 3*steps)
		if err != nil {
			return cost{}, err
		}
		counted := more.statements - fewer.statements
		// A preparation that sorts the keys of a map differs from run to run, seen by a few in a hundred thousand.
		// Beside such a preparation the steps have to be many enough.
		if counted*200 < fewer.statements && steps < stepsMax {
			continue
		}
		c.counted[key] = cost{counted / float64(2*steps) / more.units, more.allocations / more.units}
		return c.counted[key], nil
	}
}

// build makes the package's test program once, with counters.
func (c *counter) build(pkg string) (string, error) {
	if program, ok := c.built[pkg]; ok {
		return program, nil
	}
	program := filepath.Join(c.folder, strings.ReplaceAll(pkg, "/", "_"))
	covered, err := coveredBy(pkg)
	if err != nil {
		return "", err
	}
	// With -trimpath Go's cache has given the counters of another folder's sources (seen with go1.26.8).
	build := exec.Command("go", "test", "-c", "-trimpath=false", "-covermode=atomic", "-coverpkg="+strings.Join(covered, ","), "-o", program, "./"+pkg)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	c.built[pkg] = program
	return program, nil
}

// coveredBy lists the packages whose statements are counted in benchmarks of this one: those of ours that its test
// program is built on, and the loops of the standard library. So a life on a leader counts what the allocator does.
func coveredBy(pkg string) ([]string, error) {
	list := exec.Command("go", "list", "-deps", "-test", "-f", "{{if not .ForTest}}{{.ImportPath}}{{end}}", "./"+pkg)
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", list.Args, err)
	}
	covered := []string{"slices", "maps", "sort"}
	for name := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(name, module) && !strings.HasSuffix(name, ".test") {
			covered = append(covered, name)
		}
	}
	return covered, nil
}

// runSteps runs that many steps of a benchmark.
func (c *counter) runSteps(pkg, benchmark string, steps int) (result, error) {
	program, err := c.build(pkg)
	if err != nil {
		return result{}, err
	}
	profile := filepath.Join(c.folder, "profile")
	pattern := "^" + strings.Join(strings.Split(benchmark, "/"), "$/^") + "$"
	bench := exec.Command(program, "-test.run=^$", "-test.bench="+pattern, "-test.benchmem", "-test.benchtime="+strconv.Itoa(steps)+"x",
		"-test.coverprofile="+profile, "-test.cpu=1")
	bench.Dir = pkg
	out, err := bench.CombinedOutput()
	if err != nil {
		return result{}, fmt.Errorf("%s: %w: %s", benchmark, err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return result{}, err
	}
	return parseResult(benchmark, string(out), string(text))
}

// result is what one run of a benchmark cost as a whole, and per step.
type result struct {
	statements  float64 // of the whole run
	allocations float64 // of one step
	units       float64 // in one step; 1 unless the benchmark says otherwise
}

// parseResult reads what a benchmark printed and what its counters were.
func parseResult(benchmark, printed, profile string) (result, error) {
	r := result{units: 1}
	ran := false
	for line := range strings.Lines(printed) {
		words := strings.Fields(line)
		if len(words) == 0 || !strings.HasPrefix(words[0], "Benchmark") {
			continue
		}
		ran = true
		for i := 2; i+1 < len(words); i += 2 {
			value, err := strconv.ParseFloat(words[i], 64)
			if err != nil {
				return r, fmt.Errorf("%s: %w", line, err)
			}
			switch words[i+1] {
			case "allocs/op":
				r.allocations = value
			case "units":
				r.units = value
			}
		}
	}
	if !ran {
		return r, fmt.Errorf("there is no benchmark %s", benchmark)
	}
	for line := range strings.Lines(profile) {
		words := strings.Fields(line)
		if len(words) != 3 || slices.Contains(words, "mode:") {
			continue
		}
		statements, err := strconv.ParseFloat(words[1], 64)
		if err != nil {
			return r, err
		}
		times, err := strconv.ParseFloat(words[2], 64)
		if err != nil {
			return r, err
		}
		r.statements += statements * times
	}
	return r, nil
}
