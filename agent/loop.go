package agent

import (
	"context"
	"time"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
)

// awayFrom is how late the loop's own timer may be before the loop counts as having been
// away, so that nobody is judged by a silence that was its own (R23).
const awayFrom = time.Second

// loop takes everything that is waiting, steps it, and sends: batching under load, no
// delay without. again: the core has ended its life by Forget.
func (a *Agent) loop(ctx context.Context) (again bool, err error) {
	timer := time.NewTimer(pause.Soonest)
	defer timer.Stop()
	var armed time.Time // what the timer is set to; zero: nothing that counts
	for {
		due := a.core.Wake()
		if !due.IsZero() && !due.Equal(armed) {
			timer.Reset(max(time.Until(due), pause.Soonest))
			armed = due
		}
		a.round.End()
		select {
		case <-ctx.Done():
			return false, nil
		case err := <-a.failed:
			return false, err
		case look := <-a.asks:
			a.round.Begin()
			look(a.core)
			continue
		case it := <-a.inbox:
			a.round.Begin()
			now := a.back(due)
			if a.step(now, it) || a.drainInbox(now) {
				return true, nil
			}
		case <-timer.C:
			a.round.Begin()
			armed = time.Time{}
			now := a.back(due)
			if due.IsZero() || now.Before(due) {
				continue
			}
			if a.perform(a.core.Step(core.Event{At: now, What: core.Woken{}})) {
				return true, nil
			}
		}
		a.flush()
	}
}

// back is the time now, after telling the core if the loop was away.
func (a *Agent) back(due time.Time) time.Time {
	now := time.Now()
	if gap := now.Sub(due); !due.IsZero() && gap > awayFrom {
		a.log.Warn().Stringer("gap", gap).Msg("the agent itself did not run; its deadlines move")
		a.perform(a.core.Step(core.Event{At: due, What: core.Away{Gap: gap}}))
	}
	return now
}

func (a *Agent) drainInbox(now time.Time) (again bool) {
	for range inboxItemsMax {
		select {
		case it := <-a.inbox:
			if a.step(now, it) {
				return true
			}
		default:
			return false
		}
	}
	return false
}

// step takes one item: streams are known before the core hears of them.
func (a *Agent) step(now time.Time, it item) (again bool) {
	if it.taken != nil {
		it.taken <- struct{}{}
	}
	switch what := it.what.(type) {
	case core.LeaderOpened:
		a.leader = it.leader
	case core.ExecutorOpened:
		a.executors[what.Conn] = it.executor
	case core.ExecutorClosed:
		delete(a.executors, what.Conn)
	case core.TaskPrepared:
		a.stopPreparing(what.Task)
	case core.LeaderClosed:
		if a.leader != nil && a.leader.conn == what.Conn {
			a.leader = nil
		}
	default: // the core's alone
	}
	a.metrics.events.Add(1)
	return a.perform(a.core.Step(core.Event{At: now, What: it.what}))
}

// flush hands over what the batch has gathered.
func (a *Agent) flush() {
	if a.disk.bloated() {
		a.log.Info().Msg("checkpoint compacted")
		a.disk.compact(a.core.Records())
	}
	a.disk.kick()
	a.metrics.look(a.core)
}

// perform carries out effects in their order. again: the last one was Forget.
func (a *Agent) perform(effects []core.Effect) (again bool) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case core.Checkpoint:
			a.disk.add(e.Number, e.Record)
		case core.ToLeader:
			a.toLeader(e)
		case core.CloseLeader:
			if a.leader != nil && a.leader.conn == e.Conn {
				a.leader.close(e.Why)
			}
		case core.ToExecutor:
			a.toExecutor(e.Conn, outgoing{event: e.Event})
		case core.HandOver:
			out := outgoing{event: e.Launch, task: e.Task}
			if e.Launch.Task.Executor == nil { // commands need a folder; others make theirs
				out.folder = e.Launch.Sandbox
			}
			a.toExecutor(e.Conn, out)
		case core.CloseExecutor:
			if link := a.executors[e.Conn]; link != nil {
				link.out.close(e.Err)
			}
		case core.Forget:
			a.log.Warn().Str("why", e.Why).Msg("a new agent begins")
			return true
		case core.Stop:
			a.fail(e.Err)
		case core.Log:
			a.tellLog(e)
		case core.Work:
			a.performWork(e)
		}
	}
	return false
}

// performWork carries out what concerns processes and folders.
func (a *Agent) performWork(work core.Work) {
	switch e := work.(type) {
	case core.StartExecutor:
		a.startRun(e)
	case core.ReleaseExecutor:
		a.release(e.Run)
	case core.AbandonExecutor:
		a.abandon(e.Run)
	case core.KillGroups:
		a.killGroups(e)
	case core.KillGroup:
		a.killGroup(e)
	case core.PrepareTask:
		a.prepare(e)
	case core.TaskEnded:
		for _, reader := range a.readers[e.Task] {
			reader.ended = true
			close(reader.over)
		}
		delete(a.readers, e.Task)
		a.stopPreparing(e.Task)
		a.metrics.ended.Add(1)
	case core.RemoveFolder:
		a.removeFolder(e.Path)
	case core.CreateVolume:
		a.createVolume(e)
	case core.DestroyVolume:
		a.destroyVolume(e.Volume)
	case core.Sample:
		select {
		case a.samples <- e.Targets:
		default: // one is waiting already; the core asks for one at a time
		}
	}
}

func (a *Agent) toLeader(e core.ToLeader) {
	if a.leader == nil || a.leader.conn != e.Conn {
		return
	}
	if _, is := e.Call.(protocol.AgentReport); is {
		a.registered.Store(true)
	}
	if message, is := e.Call.(protocol.MessageFromExecutor); is {
		if !a.leader.out.putSpare(message) {
			a.metrics.dropped.Add(1)
		}
		return
	}
	if !a.leader.out.put(e.Call) {
		a.leader.close("the master takes nothing any more")
	}
}

func (a *Agent) toExecutor(conn core.Conn, out outgoing) {
	link := a.executors[conn]
	if link == nil {
		return
	}
	if _, is := out.event.(protocol.ExecutorMessage); is {
		if !link.out.putSpare(out) {
			a.metrics.dropped.Add(1)
		}
		return
	}
	if !link.out.put(out) {
		link.cancel()
	}
}

func (a *Agent) tellLog(e core.Log) {
	line := a.log.Info()
	for _, f := range e.Fields {
		line = line.Str(f.Name, f.Value)
	}
	line.Msg(e.Message)
}

// closeLinks ends all streams, without a word: this agent's executors wait for the next.
func (a *Agent) closeLinks() {
	if a.leader != nil {
		a.leader.cancel()
	}
	for _, link := range a.executors {
		link.cancel()
	}
	a.leader, a.executors = nil, map[core.Conn]*executorLink{}
	for _, readers := range a.readers {
		for _, reader := range readers {
			close(reader.over)
		}
	}
	clear(a.readers)
	clear(a.preparing) // the life that is over has ended them
	for {              // what came too late belongs to nobody
		select {
		case <-a.inbox:
		default:
			return
		}
	}
}
