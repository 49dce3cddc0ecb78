package core

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/internal/work"
)

// TestPartsAreReadAsTheyWereWritten: what is known of the slots of a part is also known to the next manager.
func TestPartsAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var slots slotRecords
		for index := range rapid.IntRange(0, 20).Draw(t, "slots") {
			slots = append(slots, drawSlot(t, index))
		}
		text, err := json.Marshal(partRecord{Run: "r1", Attempts: 7, Slots: slots})
		if err != nil {
			t.Fatal(err)
		}
		var read partRecord
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		slices.SortFunc(read.Slots, func(a, b *slot) int { return cmp.Compare(a.Index, b.Index) })
		if want := (partRecord{Run: "r1", Attempts: 7, Slots: slots}); !reflect.DeepEqual(read, want) {
			t.Fatalf("%s\nis read as %+v,\nnot as      %+v", text, read, want)
		}
	})
}

// FuzzPart: whatever the store says of a part, what can be read can be written and read again.
func FuzzPart(f *testing.F) {
	for _, text := range []string{
		`{"run":"r1","attempts":3,"done":[1],"slots":{"since":5,"agents":[{"id":"a","bound":true}],"tasks":"0 1 1 0 1 0 1 1 1 0 1 9"}}`,
		`{"slots":{"slots":[{"Index":3,"Attempts":[{"Number":1}]},null]}}`, `{"slots":{"slots":[{"Attempts":[null]}]}}`, `{"slots":{"tasks":"1 "}}`, `{"slots":null}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var once, again partRecord
		if json.Unmarshal(text, &once) != nil {
			return
		}
		written, err := json.Marshal(once)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatalf("%v in %s", err, written)
		}
		if rewritten, err := json.Marshal(again); err != nil || string(rewritten) != string(written) {
			t.Fatalf("%s is read as %s (%v)", written, rewritten, err)
		}
	})
}

func drawSlot(t *rapid.T, index int) *slot {
	often := func(name string) bool { return rapid.IntRange(0, 7).Draw(t, name) > 0 }
	version := rapid.IntRange(1, 3).Draw(t, "version")
	s := &slot{Index: index, Version: version, Trial: !often("proven")}
	if often("a task") {
		s.Add(drawAttempt(t, version))
		s.Tries = s.live().Try
	}
	if !often("another try") {
		s.Tries++
	}
	if !often("no failures") {
		s.Failures, s.Row = 2, 1
	}
	if !often("no pause") {
		s.Pause = transcript.Epoch
	}
	switch {
	case often("nobody's"):
	case often("its agent's") && s.busy():
		s.Agent = s.live().Agent
	default:
		s.Agent = "agent-9"
	}
	if !often("none lost") {
		s.Add(drawAttempt(t, version))
		s.Attempts[0].Missed = true
	}
	if !often("no copy") {
		s.Add(drawAttempt(t, version))
		s.Attempts[0].Copying = work.IsCopy
	}
	return s
}

func drawAttempt(t *rapid.T, version int) *attempt {
	a := &attempt{
		Attempt: work.Attempt{
			Number: rapid.IntRange(1, 1000).Draw(t, "number"),
			Agent:  api.AgentID(rapid.SampledFrom([]string{"agent-1", "agent-2"}).Draw(t, "agent")),
			Since:  transcript.Epoch.Add(time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, "since"))),
		},
		Try: rapid.IntRange(1, 3).Draw(t, "try"), Version: version,
		Hostname: rapid.SampledFrom([]string{"", "host 1", "größer"}).Draw(t, "hostname"),
		Place:    rapid.SampledFrom([]string{"", "zone-a"}).Draw(t, "place"),
	}
	switch rapid.IntRange(0, 9).Draw(t, "more") {
	case 0:
		a.Ports = map[string]uint16{"http": 31000}
	case 1:
		a.Kill = work.Unwanted
	case 2:
		a.Version = version + 1
	}
	return a
}

// TestDamagedRecords: a part that no manager can have written is refused.
func TestDamagedRecords(t *testing.T) {
	for _, tasks := range []string{"0", "0 1 1 0 1", "0 1 1 1 1 0", "0 1 1 -1 1 0", "0 1 1 0 1 x", " 0 1 1 0 1 0", "0 1 1 0 1 0 1"} {
		text := `{"run":"r1","slots":{"since":1,"agents":[{"id":"agent-1"}],"tasks":"` + tasks + `"}}`
		var part partRecord
		if err := json.Unmarshal([]byte(text), &part); err == nil || !strings.Contains(err.Error(), "task ") {
			t.Errorf("%q is read as %+v: %v", tasks, part, err)
		}
	}
}

// TestAJobThatIsDeletedNeedsLessRoom (R58): its record leaves out what nobody needs any more, so that a store takes it that
// is full and has refused the last notes.
func TestAJobThatIsDeletedNeedsLessRoom(t *testing.T) {
	now := transcript.Epoch
	m := New(jobs.Version{Number: 1, At: now, Job: jobs.Job{Name: "night", Type: jobs.CronType, Task: jobs.Task{Command: "true"}, Cron: &jobs.Cron{Schedule: "1h"}}}, "r1")
	m.Step(now, Begun{})
	m.Step(now, RunAsked{Number: 1, Why: "ann asked for it"})
	m.Step(now, Assigned{SubJob: "run-1", Version: 1, Agent: "a1"})
	stored, _ := m.Record(HeaderKey)
	for range NotesMax {
		m.addNote("%s", strings.Repeat("x", NoteBytesMax))
	}
	m.runs.Cron.Past = []jobs.CronRun{{Number: 1, State: success}}
	m.Step(now, Asked{Delete: true, Why: "enough"})
	if record, _ := m.Record(HeaderKey); m.Phase != jobs.Deleting || len(record) > len(stored) {
		t.Errorf("it is %s, and its record has %d bytes more than before: %s", m.Phase, len(record)-len(stored), record)
	}
}
