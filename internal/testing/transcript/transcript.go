// Package transcript plays the stories in testdata on a core: each line of a block is something that happens, and under
// the dashes stands what the core made of it. What the lines mean is the core's own; how they are read, how time passes
// between them and how a story is written anew (go test -rewrite) is the same for all cores.
//
// A block begins with its first line, or with the word step on a line of its own.
package transcript

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// Story is what a file of testdata is played on, from its first line to its last.
type Story interface {
	// Play plays one line. Said then returns the result; t is the test of the line's block.
	Play(t *testing.T, line Line)
	// Said returns the results of all lines since its last call, one on each line.
	Said() string
}

// Play plays all files of testdata, each on a story of its own.
func Play(t *testing.T, begin func(t *testing.T) Story) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			story := begin(t)
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				for _, line := range append([]string{firstLine(d)}, strings.Split(d.Input, "\n")...) {
					if line = strings.TrimSpace(line); line != "" {
						story.Play(t, Parse(line))
					}
				}
				if said := story.Said(); said != "" {
					return said
				}
				return "nothing"
			})
		})
	}
}

// firstLine returns the first line of a block as it is written, or "" for the word step.
func firstLine(d *datadriven.TestData) string {
	words := []string{d.Cmd}
	for _, arg := range d.CmdArgs {
		words = append(words, arg.String())
	}
	if len(words) == 1 && d.Cmd == "step" {
		return ""
	}
	return strings.Join(words, " ")
}

// Line is one line of a story: a verb, words, and values with names, as in "launch f1 t1 cpus=4".
type Line struct {
	Verb  string
	Words []string
	Named map[string]string // "_" stands for a space
}

// Parse reads a line.
func Parse(text string) Line {
	line := Line{Named: map[string]string{}}
	for _, word := range strings.Fields(text) {
		if name, value, is := strings.Cut(word, "="); is {
			line.Named[name] = strings.ReplaceAll(value, "_", " ")
		} else {
			line.Words = append(line.Words, word)
		}
	}
	if len(line.Words) > 0 {
		line.Verb, line.Words = line.Words[0], line.Words[1:]
	}
	return line
}

// Shift returns the line without its verb: its first word becomes the verb.
func (l Line) Shift() Line {
	rest := Line{Named: l.Named}
	if len(l.Words) > 0 {
		rest.Verb, rest.Words = l.Words[0], l.Words[1:]
	}
	return rest
}

// Word returns the word with this index after the verb; "" if there are not so many.
func (l Line) Word(i int) string {
	if i < len(l.Words) {
		return l.Words[i]
	}
	return ""
}

// Has says whether a word comes after the verb.
func (l Line) Has(word string) bool { return slices.Contains(l.Words, word) }

// List returns the parts of a value that is separated by commas.
func (l Line) List(name string) []string {
	return strings.FieldsFunc(l.Named[name], func(r rune) bool { return r == ',' })
}

// Number returns a value as a number; 0 if it is missing.
func (l Line) Number(t Tester, name string) uint64 {
	text, is := l.Named[name]
	if !is {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s %v: %s is no number: %v", l.Verb, l.Words, name, err)
	}
	return n
}

// Tester is a test, or a replacement that finds the shortest history that fails.
type Tester interface {
	Fatalf(format string, args ...any)
}

// Duration reads a duration; "" is 0.
func Duration(t Tester, text string) time.Duration {
	if text == "" {
		return 0
	}
	span, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%v; write it like 1m30s", err)
	}
	return span
}

// Epoch is the time at which stories begin.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Tick moves a story's clock forward, and stops at each time at which its core wants to be woken.
func Tick(now *time.Time, span time.Duration, wake func() time.Time, woken func()) {
	end := now.Add(span)
	for next := wake(); !next.IsZero() && !next.After(end); next = wake() {
		if next.After(*now) {
			*now = next
		}
		woken()
	}
	*now = end
}

// Out collects the output of a story.
type Out struct{ text strings.Builder }

// Say adds a line.
func (o *Out) Say(format string, args ...any) { fmt.Fprintf(&o.text, format+"\n", args...) }

// SayAt adds a line with its time since Epoch before it.
func (o *Out) SayAt(now time.Time, line string) {
	fmt.Fprintf(&o.text, "%6s  %s\n", now.Sub(Epoch), line)
}

// String returns the output.
func (o *Out) String() string { return o.text.String() }

// Take returns the output since its last call.
func (o *Out) Take() string {
	said := o.text.String()
	o.text.Reset()
	return said
}
