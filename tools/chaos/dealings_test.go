package main

import (
	"fmt"
	"math"
	"testing"
)

// TestDealings: the order of the journal's lines is one that may have happened. An unknown write of a process can't
// happen any more once another process has become the active one.
func TestDealings(t *testing.T) {
	put := func(name, value string) string {
		return fmt.Sprint("ask ", name, " put k ", value, " ", uint64(math.MaxUint64))
	}
	tests := []struct {
		name    string
		lines   []string
		unknown int
		good    bool
	}{
		{"kept", []string{"active s1 7", put("s1-7-0-0", "v"), "answer s1-7-0-0 3  done", "list ", "store k 3 v"}, 0, true},
		{"lost", []string{"active s1 7", put("s1-7-0-0", "v"), "answer s1-7-0-0 3  done", "list "}, 0, false},
		{"older", []string{
			put("s1-7-0-0", "v"), "answer s1-7-0-0 3  done", put("s1-7-0-1", "w"), "answer s1-7-0-1 4  done", "list ", "store k 3 v",
		}, 0, false},
		{"never answered, came to pass", []string{put("s1-7-0-0", "v"), "list ", "store k 3 v"}, 1, true},
		{"never answered, did not", []string{put("s1-7-0-0", "v"), "list "}, 1, true},
		{"answered with an error", []string{put("s1-7-0-0", "v"), "answer s1-7-0-0 0  unknown", "list ", "store k 3 v"}, 1, true},
		{"came to pass while nobody followed", []string{
			"active s1 7", put("s1-7-0-0", "v"), "active s1 7", "ask s1-7-0-1 get k  0", "answer s1-7-0-1 0  done", "list ", "store k 3 v",
		}, 1, true},
		{"came to pass after another had followed", []string{
			"active s1 7", put("s1-7-0-0", "v"), "active s2 9", "ask s2-9-0-0 get k  0", "answer s2-9-0-0 0  done", "list ", "store k 3 v",
		}, 1, false},
		{"the same scheduler's next process is another", []string{
			"active s1 7", put("s1-7-0-0", "v"), "active s1 8", "ask s1-8-0-0 get k  0", "answer s1-8-0-0 0  done", "list ", "store k 3 v",
		}, 1, false},
		{"written after the list was asked for", []string{
			"list ", put("s1-7-0-0", "v"), "answer s1-7-0-0 3  done", "store k 3 v", "settled s1",
		}, 0, true},
		{"an unknown read", []string{put("s1-7-0-0", "v"), "answer s1-7-0-0 3  done", "ask s1-7-0-1 get k  0", "list ", "store k 3 v"}, 0, true},
	}
	for _, test := range tests {
		l := newLedger()
		for i, line := range test.lines {
			e, err := parseEntry(fmt.Sprint(i+1, " ", line))
			if err != nil {
				t.Fatal(err)
			}
			l.add(e)
		}
		if unknown, err := l.store.judge(); (err == nil) != test.good || unknown != test.unknown {
			t.Errorf("%s: %d unknown, %v", test.name, unknown, err)
		}
	}
}
