package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tenderhq/tender/api"
)

func TestCountsWordsOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte("Go, go; gone! it's a_b 7up Ärger \xff\xfe"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := counts{}
	if err := got.addFile(path); err != nil {
		t.Fatal(err)
	}
	want := counts{"go": 2, "gone": 1, "it": 1, "s": 1, "a": 1, "b": 1, "up": 1, "ärger": 1}
	if word, ok := got.equal(want); !ok {
		t.Fatalf("%q: got %v, want %v", word, got, want)
	}
}

// The parts of any count fit a status each and add up to the whole.
func TestPartsFitAndAddUp(t *testing.T) {
	whole := counts{}
	for i := range 20000 {
		whole[fmt.Sprintf("word%d", i)] = i + 1
	}
	sum := counts{}
	parts := whole.parts()
	for i, part := range parts {
		data, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > api.StatusDataBytesMax {
			t.Errorf("part %d has %d bytes, a status carries %d", i, len(data), api.StatusDataBytesMax)
		}
		if part.Part != i {
			t.Errorf("part %d says it is %d", i, part.Part)
		}
		sum.add(part.Counts)
	}
	if word, ok := sum.equal(whole); !ok {
		t.Errorf("%q is not the same in the sum", word)
	}
}

// Every file is in exactly one chunk, and the chunks are of about the same size.
func TestSplitDealsAllFiles(t *testing.T) {
	var files []file
	for i := range 100 {
		files = append(files, file{path: fmt.Sprint(i), size: int64(i * 100)})
	}
	var all []string
	for _, chunk := range split(files, 7) {
		if len(chunk) < 100/7-5 {
			t.Errorf("a chunk has only %d files", len(chunk))
		}
		all = append(all, chunk...)
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 100 {
		t.Errorf("%d different files were dealt, not 100", len(all))
	}
	if chunks := split(files[:3], 7); len(chunks) != 3 {
		t.Errorf("3 files make %d chunks", len(chunks))
	}
}

// A status that comes twice, as it may, counts once, and so does a chunk that two tasks have counted.
func TestUpdateIsIdempotent(t *testing.T) {
	c := newCount(newProgress(os.Stderr, "lines", 1), func(err error) { t.Error(err) })
	data, err := json.Marshal(counts{"go": 3}.parts()[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range []api.TaskID{"count-0.1.x", "count-0.2.x"} {
		running := api.Status{Task: task, State: api.TaskRunning, Data: data}
		done := api.Status{Task: task, State: api.TaskFinished, Agent: "agent-1"}
		for _, status := range []api.Status{running, running, done, done} {
			if err := c.update(t.Context(), "count-0", status); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !c.done["count-0"] || c.words["go"] != 3 || c.byAgent["agent-1"] != 1 {
		t.Errorf("done %v, words %v, by agent %v", c.done, c.words, c.byAgent)
	}
}
