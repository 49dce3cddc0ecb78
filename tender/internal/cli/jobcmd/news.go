package jobcmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// news is what a person who follows a job was told about it.
type news struct {
	since time.Time // notes from before that are not told
	notes map[string]bool
	lines map[string]string // by sub-job: the last line that was told; and those of nextRun and wrong
}

// The keys of lines that are about the whole job; no sub-job has such a name.
const (
	nextRun = ""
	wrong   = " "
)

func newNews(since time.Time) *news {
	return &news{since: since, notes: make(map[string]bool), lines: make(map[string]string)}
}

// begin returns what a job is when somebody begins to follow it. What happened before is not told later.
func (n *news) begin(status *apiv1.JobStatus) (lines []string) {
	for _, note := range status.GetNotes() {
		n.notes[keyOf(note)] = true
	}
	return n.of(status)
}

func keyOf(note *apiv1.JobNote) string { return note.GetAt().AsTime().String() + note.GetText() }

// of returns a line for each thing that has changed.
func (n *news) of(status *apiv1.JobStatus) (lines []string) {
	notes := make(map[string]bool) // the notes that the job has; one that was dropped does not come back
	for _, note := range status.GetNotes() {
		key := keyOf(note)
		if notes[key] = true; !n.notes[key] && !note.GetAt().AsTime().Before(n.since) {
			lines = append(lines, note.GetText())
		}
	}
	n.notes = notes
	tell := func(key, line string) {
		if n.lines[key] != line {
			n.lines[key] = line
			lines = append(lines, line)
		}
	}
	if why := status.GetWhy(); why != "" && status.GetPhase() == "RUNNING" {
		if slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, why) }) {
			n.lines[wrong] = why // a note has told it
		}
		tell(wrong, why)
	}
	for _, one := range status.GetSubJobs() {
		switch state := one.GetState(); {
		case state == "blocked":
		case state == "skipped":
			tell(one.GetName(), one.GetName()+": skipped")
		default:
			tell(one.GetName(), fmt.Sprintf("%s: %d running, %d waiting, %d done, %d failed", one.GetName(), one.GetRunning(),
				one.GetWaiting()+one.GetPausing(), one.GetDone(), one.GetFailed()))
		}
	}
	if at := status.GetNextRun(); at != nil {
		tell(nextRun, "the next run is due at "+at.AsTime().Format(time.RFC3339))
	}
	return lines
}
