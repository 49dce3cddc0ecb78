package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// A failure is named by its outermost test, as in the output of go test. A test that hung is named by the list of
// running tests.
func TestFailuresAreNamed(t *testing.T) {
	for _, c := range []struct {
		name, output string
		want         []string
	}{
		{"a subtest failed", "=== RUN   TestA\n    --- FAIL: TestA/deep (0.1s)\n--- FAIL: TestA (0.20s)\n--- PASS: TestB (0s)\nFAIL\n", []string{"TestA"}},
		{"marked for test2json", "\x16--- FAIL: TestA (0.20s)\n", []string{"TestA"}},
		{"hung", "panic: test timed out after 1s\n\trunning tests:\n\t\tTestC (1s)\n\t\tTestD (0s)\n", []string{"TestC", "TestD"}},
		{"died", "fatal error: out of memory\n", []string{"(no test named)"}},
	} {
		if got := failures([]byte(c.output)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestReportNamesEachFailureOnce(t *testing.T) {
	r := newResults()
	for range 9 {
		r.countRun()
	}
	var quiet bytes.Buffer
	if err := r.report(&quiet, 3); err != nil || !strings.Contains(quiet.String(), "nothing failed in 3 whole rounds, 9 runs") {
		t.Errorf("without failures: %v, %q", err, quiet.String())
	}
	r.add(failure{"p/b", "TestOnce"}, "busy", "/tmp/1")
	for range 2 {
		r.add(failure{"p/a", "TestTwice"}, "GOMAXPROCS=1", "/tmp/2")
	}
	var out bytes.Buffer
	if err := r.report(&out, 3); err == nil {
		t.Error("failures are no error")
	}
	want := "2 times  p/a TestTwice  (GOMAXPROCS=1: 2)\n          /tmp/2\n1 times  p/b TestOnce  (busy: 1)\n          /tmp/1\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
