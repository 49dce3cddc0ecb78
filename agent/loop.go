package agent

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/internal/pause"
)

// awayFrom is how late the loop's own timer may be. If it is later, the loop counts as having been away, so that nobody
// is taken for silent because the loop itself did not run (R23).
const awayFrom = time.Second

// runLoop takes everything that waits, steps it, and sends the effects. So it works in batches under load, and without
// delay otherwise. It returns when the core has ended its life by Forget, too.
func (a *Agent) runLoop(ctx context.Context) error {
	timer := time.NewTimer(pause.Soonest)
	defer timer.Stop()
	var armed time.Time // when the timer fires; zero: at no time that counts
	for !a.now.life.Over() {
		due := a.now.core.Wake()
		if !due.IsZero() && !due.Equal(armed) {
			timer.Reset(max(time.Until(due), pause.Soonest))
			armed = due
		}
		a.round.End()
		select {
		case <-ctx.Done():
			a.metrics.look(a.now.core)
			tellLeaving(a.log, context.Cause(ctx), a.metrics.tasks.Load(), a.config.RecoveryTimeout)
			return nil
		case err := <-a.inbox.failed:
			return err
		case look := <-a.inbox.asks:
			a.round.Begin()
			look(a.now.core)
			continue
		case it := <-a.inbox.items:
			a.round.Begin()
			now := a.tellAway(due)
			a.stepItem(now, it)
			a.drainInbox(now)
		case <-timer.C:
			a.round.Begin()
			armed = time.Time{}
			now := a.tellAway(due)
			if due.IsZero() || now.Before(due) {
				continue
			}
			a.now.life.Step(now, core.Woken{})
		}
		a.flushBatch()
	}
	return nil
}

// tellLeaving logs why the agent leaves, what ends with it, and what goes on without it.
func tellLeaving(log zerolog.Logger, why error, tasks int64, wait time.Duration) {
	line := log.Info().AnErr("why", why).Int64("tasks", tasks)
	switch {
	case tasks == 0:
		line.Msg("agent leaves; it has no tasks")
	case wait < 0:
		line.Msg("agent leaves; its tasks end with it")
	default:
		line.Stringer("wait", wait).Msg("agent leaves; its tasks go on, and wait that long for an agent in this folder")
	}
}

// tellAway returns the current time. If this process did not run for a while; deadlines are moved, it tells the core first.
func (a *Agent) tellAway(due time.Time) time.Time {
	now := time.Now()
	if gap := now.Sub(due); !due.IsZero() && gap > awayFrom {
		a.log.Warn().Stringer("gap", gap).Msg("this process did not run for a while; deadlines are moved")
		a.now.life.Step(due, core.Away{Gap: gap})
	}
	return now
}

func (a *Agent) drainInbox(now time.Time) {
	for range inboxItemsMax {
		select {
		case it := <-a.inbox.items:
			a.stepItem(now, it)
		default:
			return
		}
	}
}

// stepItem steps one item. A stream is stored before the core gets the event about it.
func (a *Agent) stepItem(now time.Time, it item) {
	if it.taken != nil {
		it.taken <- struct{}{}
	}
	switch what := it.what.(type) {
	case core.LeaderOpened:
		a.leader.stream = it.leader
	case core.LeaderSaid:
		it.what = a.preparing.keepSecrets(what)
	case core.ExecutorOpened:
		a.executors.links[what.Conn] = it.executor
	case core.ExecutorClosed:
		delete(a.executors.links, what.Conn)
	case core.DiskRoom:
		if what.Full || what.Low {
			a.now.start(a.preparing.giveUpImages)
		}
	case core.LeaderClosed:
		if a.leader.stream != nil && a.leader.stream.conn == what.Conn {
			a.leader.stream = nil
		}
	default: // the other items concern only the core
	}
	a.metrics.events.Add(1)
	a.now.life.Step(now, it.what)
}

// flushBatch has the records of the batch written, and compacts the checkpoint if it has grown too much.
func (a *Agent) flushBatch() {
	if a.now.disk.bloated() {
		a.log.Info().Msg("checkpoint compacted")
		a.now.disk.compact(a.now.core.Records())
	}
	a.now.disk.kick()
	a.metrics.look(a.now.core)
}

// shell performs the effects of the agent's core.
type shell struct{ *Agent }

// Now returns the time.
func (shell) Now() time.Time { return time.Now() }

// Room looks whether the disk has room.
func (a shell) Room() core.DiskRoom { return a.now.disk.look() }

// Perform performs an effect.
func (a shell) Perform(effect core.Effect) {
	switch e := effect.(type) {
	case core.Checkpoint:
		a.now.disk.add(e.Number, e.Record)
	case core.ToLeader:
		a.leader.send(e)
	case core.CloseLeader:
		if link := a.leader.stream; link != nil && link.conn == e.Conn {
			link.close(e.Why)
		}
	case core.ToExecutor:
		a.executors.send(e.Conn, outgoing{event: e.Event})
	case core.HandOver:
		out, wrong := a.preparing.launch(e)
		if wrong == nil {
			a.executors.send(e.Conn, out)
			return
		}
		a.now.start(func() {
			a.inbox.postEvent(a.now.context, core.TaskPrepared{Task: e.Task, Reason: executor.Reason(wrong), Message: wrong.Error()})
		})
	case core.CloseExecutor:
		if link := a.executors.links[e.Conn]; link != nil {
			link.out.close(e.Err)
		}
	case core.Forget:
		a.log.Warn().Str("why", e.Why).Msg("a new agent begins")
	case core.Stop:
		a.inbox.fail(e.Err)
	case core.Log:
		a.tellLog(e)
	case core.Work:
		a.performWork(e)
	}
}

// performWork performs the effects that concern processes and folders.
func (a *Agent) performWork(work core.Work) {
	switch e := work.(type) {
	case core.StartExecutor:
		a.runs.start(e)
	case core.ReleaseExecutor:
		a.runs.release(e.Run)
	case core.AbandonExecutor:
		a.runs.abandonStart(e.Run)
	case core.KillGroups:
		a.runs.killGroups(e)
	case core.KillGroup:
		a.runs.killGroup(e)
	case core.PrepareTask:
		a.preparing.prepareTask(e)
	case core.TaskEnded:
		a.front.tasks.EndTask(e.Task)
		a.preparing.stop(e.Task)
		a.preparing.dropSecrets(e.Task, e.Sandbox)
		a.preparing.views.concealVolumes(e.Executor, e.Volumes)
		if err := a.walls.cells.Release(e.Task); err != nil {
			a.log.Error().Err(err).Stringer("task", e.Task).Msg("the GPUs of a task can't be taken from its executor")
		}
		a.preparing.images.Release(e.Task)
		a.metrics.ended.Add(1)
	case core.DropSecrets:
		a.preparing.dropSecrets(e.Task, "")
	case core.RemoveFolder:
		a.folder.remove(e.Path, e.Free && a.walls.cells.Holds())
	case core.CreateVolume:
		a.inbox.fail(a.folder.createVolume(e))
	case core.DestroyVolume:
		a.destroyVolume(e)
	case core.Sample:
		a.samples.ask(e.Targets)
	}
}

func (a *Agent) tellLog(e core.Log) {
	line := a.log.Info()
	for _, f := range e.Fields {
		line = line.Str(f.Name, f.Value)
	}
	line.Msg(e.Message)
}

// closeLinks ends all streams without a status, so executors wait for the next agent.
func (a *Agent) closeLinks() {
	if a.leader.stream != nil {
		a.leader.stream.leave(nil)
	}
	for _, link := range a.executors.links {
		link.cancel()
	}
	a.leader.stream = nil
	clear(a.executors.links)
	a.front.tasks.EndLife()
	clear(a.preparing.tasks) // these tasks belong to the life that is over
	a.preparing.secrets.Clear()
	a.inbox.empty()
}

// destroyVolume deletes a volume in a goroutine of its own.
func (a *Agent) destroyVolume(e core.DestroyVolume) {
	a.now.start(func() {
		done := core.VolumeDestroyed{Volume: e.Volume, Generation: e.Generation}
		if err := a.folder.destroyVolume(e.Volume); err != nil {
			done.Err = err.Error()
		}
		a.inbox.postEvent(a.now.context, done)
	})
}

// watchLoop ends the session of an agent whose loop is stuck, and logs where it is stuck (R36). Tasks run on. A new
// session begins when the loop runs again.
func (a *Agent) watchLoop(ctx context.Context) {
	for {
		evidence := a.round.Watch(ctx, a.leader.longestRound)
		if evidence == "" {
			return
		}
		a.log.Error().Stringer("longest", a.leader.longestRound()).Str("stack", evidence).Msg("the agent's loop is stuck")
		a.metrics.stuck.Add(1)
		if link := a.leader.shown.Load(); link != nil {
			link.close("the agent's loop is stuck")
		}
	}
}
