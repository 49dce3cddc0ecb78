package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// A step may cost no more than the file allows, and may not grow faster with what exists beside it.
func TestComplaints(t *testing.T) {
	p := path{name: "a life", few: "B/tasks=10", many: "B/tasks=2000", growthMax: 1.1, allowed: cost{1000, 50}}
	for name, c := range map[string]struct {
		measured measured
		refused  string
	}{
		"as it was":                  {measured{cost{1000, 50}, cost{1050, 51}}, ""},
		"a little more by chance":    {measured{cost{1010, 50.2}, cost{1050, 51}}, ""},
		"cheaper":                    {measured{cost{500, 20}, cost{500, 20}}, ""},
		"more statements":            {measured{cost{1100, 50}, cost{1100, 50}}, "1100 statements, and 1000 are allowed"},
		"more allocations":           {measured{cost{1000, 53}, cost{1000, 53}}, "53.0 allocations, and 50.0 are allowed"},
		"statements grow":            {measured{cost{1000, 50}, cost{3000, 50}}, "costs 3.00 times"},
		"allocations grow":           {measured{cost{1000, 50}, cost{1000, 500}}, "costs 9.18 times"},
		"nothing is what it cost me": {measured{cost{1000, 0}, cost{1000, 0.4}}, ""},
	} {
		found := strings.Join(p.complaints(c.measured), "\n")
		if (c.refused == "") != (found == "") || !strings.Contains(found, c.refused) {
			t.Errorf("%s: %q, wanted %q", name, found, c.refused)
		}
	}
	if raised := p.written(measured{few: cost{1100, 50}}, []string{"more"}, "it does more"); raised.why != "it does more" || raised.allowed.statements != 1100 {
		t.Errorf("raised with a reason: %+v", raised)
	}
}

// What the file says is read as it was written.
func TestPaths(t *testing.T) {
	text, err := os.ReadFile("costs.txt")
	if err != nil {
		t.Fatal(err)
	}
	paths, err := parsePaths(string(text))
	if err != nil || len(paths) == 0 {
		t.Fatal(len(paths), err)
	}
	again, err := parsePaths(header + formatPaths(paths))
	if err != nil || !slices.Equal(paths, again) {
		t.Errorf("read again: %v, %v; wanted %v", again, err, paths)
	}
	for _, line := range []string{"a | b | c", "a | b | c | d | many | 1 | 1 |"} {
		if _, err := parsePaths(line); err == nil {
			t.Errorf("%q is taken", line)
		}
	}
}

func TestResults(t *testing.T) {
	printed := "goos: linux\nBenchmarkLife/tasks=10 \t     100\t     18472 ns/op\t  2.000 units\t   11140 B/op\t      71 allocs/op\nPASS\n"
	profile := "mode: atomic\na.go:1.1,2.2 3 100\nb.go:1.1,2.2 1 7\n"
	got, err := parseResult("BenchmarkLife/tasks=10", printed, profile)
	if want := (result{statements: 307, allocations: 71, units: 2}); err != nil || got != want {
		t.Errorf("%+v, %v; wanted %+v", got, err, want)
	}
	if _, err := parseResult("BenchmarkNone", "PASS\n", profile); err == nil {
		t.Error("a benchmark that is not there costs nothing")
	}
}
