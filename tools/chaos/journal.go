package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

// The journal is a file to which all schedulers append. They write each line at once, before they act on what it says.
// It survives each of them.

// entry is one line of the journal.
type entry struct {
	at   time.Time
	what string // launch, running, end, active, ask, answer, list, store, settled
	args []string
}

type journal struct{ file *os.File }

func openJournal(name string) (*journal, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	return &journal{file}, err
}

func (j *journal) say(what string, args ...string) error {
	line := fmt.Sprintf("%d %s %s\n", time.Now().UnixNano(), what, strings.Join(args, " "))
	_, err := j.file.WriteString(line)
	return err
}

// follower reads what was appended since its last read.
type follower struct {
	file *os.File
	rest []byte
}

func (f *follower) read() ([]entry, error) {
	var entries []entry
	buffer := make([]byte, 64<<10)
	for {
		n, _ := f.file.Read(buffer) // the end of the file is no error, because more will come
		if n == 0 {
			return entries, nil
		}
		f.rest = append(f.rest, buffer[:n]...)
		for {
			line, rest, whole := bytes.Cut(f.rest, []byte{'\n'})
			if !whole {
				break
			}
			e, err := parseEntry(string(line))
			if err != nil {
				return nil, err
			}
			entries, f.rest = append(entries, e), rest
		}
	}
}

func parseEntry(line string) (entry, error) {
	words := strings.Split(line, " ")
	nanos, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil || len(words) < 2 {
		return entry{}, fmt.Errorf("a line of the journal is %q", line)
	}
	return entry{time.Unix(0, nanos), words[1], words[2:]}, nil
}

// task is what the journal tells about a task.
type task struct {
	agent                    string // it was launched on
	launched, running, ended time.Time
	ends                     []string // each different terminal state
}

// ledger is the result of all lines of the journal.
type ledger struct {
	tasks   map[string]*task
	order   []string
	active  string // the scheduler that subscribed last
	store   *dealings
	settled bool
}

func newLedger() *ledger {
	return &ledger{tasks: map[string]*task{}, store: newDealings()}
}

func (l *ledger) add(e entry) {
	l.store.add(e)
	switch e.what {
	case "launch":
		l.tasks[e.args[0]] = &task{launched: e.at}
		if len(e.args) > 1 {
			l.tasks[e.args[0]].agent = e.args[1]
		}
		l.order = append(l.order, e.args[0])
	case "running":
		if t := l.tasks[e.args[0]]; t != nil && t.running.IsZero() {
			t.running = e.at
		}
	case "end":
		l.end(e)
	case "active":
		l.active = e.args[0]
	case "settled":
		l.settled = true
	}
}

func (l *ledger) end(e entry) {
	t := l.tasks[e.args[0]]
	if t == nil {
		t = &task{}
		l.tasks[e.args[0]] = t
	}
	if e.args[1] == api.TaskUnknown.String() && len(t.ends) > 0 {
		return // the masters have forgotten a task that ended while they were asked
	}
	if t.ended.IsZero() {
		t.ended = e.at
	}
	if !slices.Contains(t.ends, e.args[1]) { // it may be told again, as is promised
		t.ends = append(t.ends, e.args[1])
	}
}

// open returns the tasks whose end was not told yet.
func (l *ledger) open() (ids []string) {
	for _, id := range l.order {
		if l.tasks[id].ended.IsZero() {
			ids = append(ids, id)
		}
	}
	return ids
}

// firstAfter returns when the first task that was launched after a time got that far.
func (l *ledger) firstAfter(moment time.Time, reached func(*task) time.Time) (time.Time, bool) {
	first := time.Time{}
	for i := len(l.order) - 1; i >= 0; i-- {
		t := l.tasks[l.order[i]]
		if t.launched.Before(moment) {
			break
		}
		if at := reached(t); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, !first.IsZero()
}
