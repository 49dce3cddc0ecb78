package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/framework/taskset"
)

// progress shows how many tasks are done: as a bar that is drawn over itself on a terminal, otherwise as a line for
// each tenth.
type progress struct {
	out   io.Writer
	bar   bool
	total int
	tenth int
}

func newProgress(out *os.File, mode string, total int) *progress {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &progress{out: out, bar: mode == "bar" || mode == "auto" && terminal, total: total}
}

const barWidth = 50

func (p *progress) show(done int) {
	if p.bar {
		full := barWidth * done / p.total
		fmt.Fprintf(p.out, "\r[%s%s] %d/%d tasks", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), done, p.total)
		if done == p.total {
			fmt.Fprintln(p.out)
		}
		return
	}
	if tenth := 10 * done / p.total; tenth > p.tenth {
		p.tenth = tenth
		fmt.Fprintf(p.out, "%d/%d tasks\n", done, p.total)
	}
}

// report prints the most frequent words, and then which agents did the work.
func report(out io.Writer, c *count, n taskset.Numbers, top int, took time.Duration) {
	words := slices.SortedFunc(maps.Keys(c.words), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.words[b], c.words[a]), cmp.Compare(a, b))
	})
	for i, word := range words[:min(top, len(words))] {
		fmt.Fprintf(out, "%4d. %-16s %9d\n", i+1, word, c.words[word])
	}
	for _, agent := range slices.Sorted(maps.Keys(c.byAgent)) {
		fmt.Fprintf(out, "tasks on %s (%s): %d\n", agent, c.hosts[agent], c.byAgent[agent])
	}
	fmt.Fprintf(out, "words: %d, %d of them different; tasks: %d (%d tried again); %.1f s\n",
		c.words.total(), len(c.words), n.Done, n.Attempts-n.Done, took.Seconds())
}
