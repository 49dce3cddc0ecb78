package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A failure is one test of one package that has failed at least once.
type failure struct {
	pkg, test string
}

// seen is what is known about a failure.
type seen struct {
	times int
	modes map[string]int
	log   string // the file with its last output
}

// results counts what ran and what failed.
type results struct {
	mu     sync.Mutex
	ran    int               // runs of a package's tests; guarded by mu
	failed map[failure]*seen // guarded by mu
}

func newResults() *results {
	return &results{failed: map[failure]*seen{}}
}

func (r *results) countRun() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ran++
}

func (r *results) add(f failure, mode, log string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.failed[f]
	if s == nil {
		s = &seen{modes: map[string]int{}}
		r.failed[f] = s
	}
	s.times++
	s.modes[mode]++
	s.log = log
}

// report prints each failure once, and returns an error if there is one.
func (r *results) report(w io.Writer, rounds int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failed) == 0 {
		fmt.Fprintf(w, "stress: nothing failed in %d whole rounds, %d runs of a package's tests\n", rounds, r.ran)
		return nil
	}
	order := slices.SortedFunc(maps.Keys(r.failed), func(a, b failure) int {
		return cmp.Or(cmp.Compare(r.failed[b].times, r.failed[a].times), cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test))
	})
	for _, f := range order {
		s := r.failed[f]
		var modes []string
		for _, mode := range slices.Sorted(maps.Keys(s.modes)) {
			modes = append(modes, fmt.Sprintf("%s: %d", mode, s.modes[mode]))
		}
		fmt.Fprintf(w, "%d times  %s %s  (%s)\n          %s\n", s.times, f.pkg, f.test, strings.Join(modes, ", "), s.log)
	}
	return fmt.Errorf("%d tests failed by chance or always, in %d whole rounds", len(r.failed), rounds)
}

// The lines in which a test binary names what failed: the outermost tests, and the test that was running when the
// binary was ended by its timeout or by a panic.
var (
	failLine    = regexp.MustCompile(`(?m)^\x16?--- FAIL: (\S+)`)
	runningLine = regexp.MustCompile(`(?m)^\t+(Test\S+) \([0-9].*\)$`)
)

// failures returns the failed tests in a test binary's output; "(no test named)" if it died without naming any.
func failures(output []byte) []string {
	var names []string
	for _, pattern := range []*regexp.Regexp{failLine, runningLine} {
		for _, match := range pattern.FindAllSubmatch(output, -1) {
			names = append(names, string(match[1]))
		}
		if len(names) > 0 {
			break
		}
	}
	if len(names) == 0 {
		return []string{"(no test named)"}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
