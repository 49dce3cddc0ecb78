package run

import (
	"strings"
	"testing"
)

// Only the bar is on the last line: other output takes its place, and the bar is drawn again below that.
func TestTheBarMakesRoom(t *testing.T) {
	var terminal strings.Builder
	out := newOutputs(&terminal, &terminal, true)
	say := out.aside(func(format string, _ ...any) { terminal.WriteString("tender: " + format + "\n") })
	out.bar(progressBar(4, 1, 0, 2))
	out.bar(progressBar(4, 1, 0, 2)) // nothing has changed
	if _, err := out.streams("t.0")[0].Write([]byte("line\n")); err != nil {
		t.Fatal(err)
	}
	out.bar(progressBar(4, 2, 1, 2))
	say("a word")
	out.noBar()
	want := "[#######.......................] 1 of 4 ended, 2 running" + wipeLine + "t.0 | line\n" +
		"[###############...............] 2 of 4 ended, 2 running, 1 failed" + wipeLine + "tender: a word\n"
	if terminal.String() != want {
		t.Errorf("got %q\nwant %q", terminal.String(), want)
	}
}
