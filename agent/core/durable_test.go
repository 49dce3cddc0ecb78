package core

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// durable checks, for every effect of every test, that what others may act on is on disk (durable before visible).
func (w *world) durable(effect Effect) {
	onDisk := w.log[:len(w.log)-int(w.core.disk.written-w.core.disk.stored)]
	wants := func(what string, match func(Record) bool) {
		for i := len(onDisk) - 1; i >= 0; i-- {
			if match(onDisk[i]) {
				return
			}
		}
		w.t.Fatalf("%s before its record is on disk", what)
	}
	switch e := effect.(type) {
	case RemoveFolder:
		for folder := range w.core.Folders() { // order: irrelevant because any one is enough
			if strings.HasPrefix(folder+"/", e.Path+"/") && !w.begins(folder) {
				w.t.Fatalf("%s is removed, and %s is in use or kept", e.Path, folder)
			}
		}
	case StartExecutor:
		wants("start", func(r Record) bool { s, is := r.(ExecutorStarting); return is && s.Run == e.Run })
	case ReleaseExecutor:
		wants("release", func(r Record) bool { s, is := r.(ExecutorStarted); return is && s.Run == e.Run })
	case HandOver:
		wants("launch", func(r Record) bool { l, is := r.(TaskLaunched); return is && l.Task.ID == e.Task.Task })
		if run := w.truth.conns[e.Conn]; w.truth.runs[run] != nil && w.truth.runs[run].told {
			w.t.Fatalf("%s is handed to %s, which was told to end and takes nothing", e.Task, showRun(run))
		}
	case ToLeader:
		w.durableCall(e.Call, wants)
	default: // shows nobody anything
	}
}

// begins says whether the folder is that of a task which was launched a moment ago, so that nothing is in it yet: what is
// removed there is of an earlier launch of its ID.
func (w *world) begins(folder string) bool {
	for _, t := range w.core.state.tasks { // order: irrelevant because folders are of one task each
		if w.core.taskFolder(t.executor, t.ref.Task) == folder {
			return t.launchRecord > w.core.disk.stored
		}
	}
	return false
}

func (w *world) durableCall(call protocol.AgentCall, wants func(string, func(Record) bool)) {
	switch call := call.(type) {
	case protocol.RegisterAgent, protocol.ReregisterAgent:
		wants("contact", func(r Record) bool { i, is := r.(Identity); return is && i.Nonce != "" })
	case protocol.KillTaken:
		if t := w.core.state.tasks[call.TaskRef]; t != nil && !t.ended() {
			wants("kill taken", func(r Record) bool { k, is := r.(TaskKilled); return is && k.Task == call.TaskRef })
		}
	case protocol.StatusUpdate:
		durableStatus(call.Status, wants)
	case protocol.AgentReport:
		for _, t := range call.Tasks {
			durableStatus(t.Status, wants)
			if t.Ended != t.Status.State.Terminal() {
				w.t.Fatalf("%s is reported as %s, and ended: %v", t.Status.Ref(), t.Status.State, t.Ended)
			}
		}
	default: // the others mean nothing here
	}
}

// durableStatus checks that a status that the agent has numbered is on disk before anybody is told of it.
func durableStatus(status api.Status, wants func(string, func(Record) bool)) {
	if status.Number == 0 {
		return
	}
	wants("status", func(r Record) bool {
		s, is := r.(TaskStatus)
		return is && s.Status.Ref() == status.Ref() && s.Status.Number == status.Number && s.Status.State == status.State
	})
}

// toldInOrder checks that the statuses of a task come in order, from the oldest unacknowledged one on, that they are
// legal moves, and that a repeated status is the same.
func (w *world) toldInOrder(status api.Status) {
	if status.Number == 0 {
		return
	}
	if w.told == nil {
		w.told = map[api.TaskRef][]api.Status{}
	}
	ref := status.Ref()
	told := w.told[ref]
	oldest := uint64(1)
	if t := w.core.state.tasks[ref]; t != nil && len(t.unacked) > 0 {
		oldest = t.unacked[0].Number
	}
	for _, before := range told {
		if before.Number != status.Number {
			continue
		}
		if before.State != status.State {
			w.t.Fatalf("%s: number %d is %s after it was %s", ref, status.Number, status.State, before.State)
		}
		return
	}
	if len(told) > 0 {
		last := told[len(told)-1]
		switch {
		case status.Number != last.Number+1 && status.Number != oldest:
			w.t.Fatalf("%s: number %d after %d", ref, status.Number, last.Number)
		case last.State.Terminal():
			w.t.Fatalf("%s: %s after %s", ref, status.State, last.State)
		}
	}
	w.told[ref] = append(told, status)
}

// TestAnyHistory lets all kinds of events happen in any order, with a disk that lags far behind and an agent that dies
// at any time. world.step has the checks that are made after every event.
func TestAnyHistory(t *testing.T) {
	words := []string{
		"open", "closed", "leader registered", "leader registered", "leader registered term=2 session=2", "leader reported", "leader pong term=1",
		"leader launch {f}/{t} number={n}", "leader launch {f}/{t} number={n}", "leader launch {f}/{t} number={n}", "leader launch {f}/{t} number={n} executor=x",
		"leader launch {f}/{t} number={n} executor=x resources=new", "leader launch {f}/{t} number={n} uri=/x", "prepared {f}/{t}", "unprepared {f}/{t}",
		"leader kill {f}/{t}", "leader kill {f}/{t} grace=1s", "leader ack {f}/{t} n={i}", "leader ack {f}/{t} n={i}", "leader ack {f}/{t} n={i}", "leader shutdown {f}/command",
		"leader remove {f}", "leader drain on", "leader drain off", "leader volume v1", "leader destroy v1", "destroyed v1",
		"forked {f}/command pid=10", "forked {f}/x pid=20", "failed {f}/x", "exited {f}/command", "exited {f}/x", "groupsgone {f}/command", "groupsgone {f}/x",
		"subscribe {f}/command conn={c}", "subscribe {f}/command conn={c} tasks={t}", "subscribe {f}/x conn={c}", "subscribe {f}/x {t} RUNNING n={i} conn={c} tasks={t}",
		"status {t} RUNNING n={i} conn={c} group=30", "status {t} RUNNING n={i} conn={c}", "status {t} FINISHED n={i} conn={c}", "status {t} FAILED n={i} conn={c}",
		"status {t} KILLED n={i} conn={c}", "hangup conn={c}", "disk full", "disk ok", "away 3s",
		"tick 1s", "tick 10s", "tick 2m", "stored", "stored", "stored", "stored less=1", "auto", "auto off",
		"restart boot=b1", "restart boot=b1 alive=f1/command,f1/x", "restart all boot=b1", "restart compacted boot=b1", "restart boot=b2",
	}
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		defer func() {
			if rt.Failed() {
				rt.Log(w.out.String())
			}
		}()
		w.line("started boot=b1")
		number := 100
		for range rapid.IntRange(1, 120).Draw(rt, "steps") {
			line := rapid.SampledFrom(words).Draw(rt, "line")
			number++
			line = strings.NewReplacer(
				"{f}", rapid.SampledFrom([]string{"f1", "f1", "f2"}).Draw(rt, "framework"),
				"{t}", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "task"),
				"{n}", fmt.Sprint(number),
				"{i}", rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "number"),
				"{c}", rapid.SampledFrom([]string{"1001", "1002", "1003"}).Draw(rt, "conn"),
			).Replace(line)
			w.out.Say("> %s", line)
			w.line(line)
		}
	})
}
