package core

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestWild sends a core any events in any order, also those that no master and no shell would send. Every event is sent
// to a clone as well, which must do the same and leave the core as it is.
func TestWild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		pick := func(words ...string) string { return rapid.SampledFrom(words).Draw(t, "word") }
		w.line("config roles=*,b wants=subscribed,settled,rescinded,operations,refused,agents,inverse reconcile=3s counts " + pick("", "standby", "teardown"))
		w.line("started")
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			w.chance = rapid.Uint64().Draw(t, "chance")
			if line := w.wildLine(pick); line != "dialed" || w.core.search.dialing {
				w.line(line)
			}
		}
	})
}

// wildLine draws a random line of a transcript, with few different names.
func (w *world) wildLine(pick func(words ...string) string) string {
	offer, task := "o"+pick("1", "2", "3"), "t"+pick("1", "2", "3")
	kind := pick("unavailable", "stale", "invalid", "notleader", "exists")
	number := pick("1", "2", "3", "4", "5", "6")
	forms := []string{
		"dialed", "dialed", "dialed", "heard subscribed", "heard subscribed", "heard heartbeat", "tick 1s", "tick 100ms", "clock 4s", "returned",
		"returned", "returned launch=OFFER:TASK", "returned keep=OFFER", "returned reserve=OFFER:op", "returned failed", "returned later",
		"returned skipped", "heard offers OFFER", "heard offers OFFER timeout=2s", "heard rescind OFFER", "heard update TASK RUNNING n=NUMBER",
		"heard update TASK FINISHED n=NUMBER", "heard update TASK UNREACHABLE agent=none", "heard update TASK UNKNOWN agent=none",
		"heard update TASK RUNNING agent=a2 n=NUMBER reason=RECONCILIATION", "heard refused call=NUMBER kind=KIND", "hangup kind=KIND",
		"heard waiting", "heard settled", "heard operation op kind=KIND", "heard updated call=NUMBER", "answer launch=OFFER:TASK", "kill TASK",
		"acknowledge TASK n=NUMBER", "demand count=NUMBER behind=NUMBER", "demand b", "suppress b", "revive", "reconcile TASK", "reconcile",
		"operations op", "operations", "update request=NUMBER roles=b", "withdraw request=NUMBER", "turn Do number=NUMBER", "wanted request=NUMBER",
	}
	line := pick(forms...)
	return strings.NewReplacer("OFFER", offer, "TASK", task, "KIND", kind, "NUMBER", number).Replace(line)
}

// TestDump: the dump shows each room, and two cores that differ have different dumps.
func TestDump(t *testing.T) {
	w := newWorld(t)
	for _, line := range []string{"config roles=a", "started", "session", "heard offers o1", "returned launch=o1:t1", "kill t1"} {
		w.line(line)
	}
	dump := w.core.Dump()
	for _, word := range []string{"framework-1", "m1:1", "t1", "killing.asked"} {
		if !strings.Contains(dump, word) {
			t.Errorf("no %s in the dump:\n%s", word, dump)
		}
	}
	clone := w.core.Clone()
	w.line("heard update t1 KILLED n=1")
	if other := w.core.Dump(); clone.Dump() != dump || other == dump {
		t.Error(fmt.Sprint("the clone shows as before: ", clone.Dump() == dump, ", the original: ", other == dump))
	}
}
