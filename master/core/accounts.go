package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/accounting"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/registry/spent"
)

// This file says to whose account tasks and executors go, and when the registry is told. (Protocol rules R80, R81.)

// accounts counts who holds and uses how much.
type accounts struct {
	*accounting.Accounts
	turn *deadline // when they are to be closed; not set while nothing is open
}

func newAccounts(state *registry.State, now time.Time) *accounts {
	return &accounts{accounting.Began(now, state.Usage.Until), newDeadline(accountsDue{})}
}

// accountOf returns the account of what a framework has in a role, for a job; "" = for none.
func (b *base) accountOf(id api.FrameworkID, info *api.Framework, role api.Role, job string) *accounting.Account {
	account := b.accounts.Of(spent.Key{Role: role, Principal: info.Principal, Framework: id, Job: job}, info.Name, b.now)
	if !b.accounts.turn.IsSet() {
		b.closeLater()
	}
	return account
}

func (b *base) accountOfTask(t *task) *accounting.Account {
	return b.accountOf(t.framework.id, &t.framework.info, t.role, t.task.Labels[api.JobLabel])
}

// closeLater sets when the accounts are to be closed.
func (b *base) closeLater() {
	if !b.accounts.IsOpen() {
		b.deadlines.Clear(b.accounts.turn)
		return
	}
	next, hour := b.accounts.Due()
	if over := b.moment(hour); over.Before(next) {
		next = over
	}
	b.deadlines.Set(b.accounts.turn, next)
}

// countEnd counts the end of a task, of which a second launch of the same ID is no part.
func (b *base) countEnd(t *task) {
	if t.duplicate || !t.status.State.Terminal() {
		return
	}
	b.countEndIn(b.accountOfTask(t), t.status.State)
}

func (b *base) countEndIn(account *accounting.Account, state api.TaskState) {
	if b.accounts.End(account, state) {
		b.closeLater()
	}
}

// recordUsage closes the accounts, and has the registry keep what they say.
func (c *Core) recordUsage() {
	c.accounts.Close(c.now)
	c.proposeUsage()
	c.closeLater()
}

// proposeUsage proposes what is closed, unless the registry has yet to answer the proposal before.
func (c *Core) proposeUsage() {
	if hours := c.accounts.Send(); hours != nil {
		c.proposals.propose(registry.RecordUsage{Saw: c.registry.Usage.Until, Until: c.accounts.Closed(), Hours: hours}, usageRecorded{})
	}
}

// usageAnswered continues when the registry has answered.
func (c *Core) usageAnswered(result registry.Result) {
	c.accounts.Settled()
	if result.Err != nil {
		c.warn("usage is not recorded", Field{"why", result.Err.Error()})
	}
	c.proposeUsage()
}

// countUse counts a sample for the time since the one before, but for no longer than a record waits. What an executor
// and its tasks use together is on the executor's account; what a task of another account has used of it goes there.
func (r *usage) countUse(a *agent, sample protocol.UsageReport) {
	span := max(min(r.now.Sub(a.counted), accounting.Every), 0)
	a.counted = r.now
	for ref, used := range sample.Executors { // order: irrelevant because it sums
		if x := a.executors[ref]; x != nil {
			r.accounts.Use(x.account, used, span)
		}
	}
	for ref, used := range sample.Tasks { // order: irrelevant because it sums
		t := a.tasks[ref]
		if t == nil || !t.held {
			continue
		}
		x := a.executors[api.ExecutorRef{Framework: ref.Framework, Executor: t.task.ExecutorID()}]
		if x != nil && x.account != t.account {
			r.accounts.Use(t.account, used, span)
			r.accounts.Use(x.account, api.Usage{CPU: -used.CPU, Mem: -used.Mem}, span)
		}
	}
}

// countUnheard counts what a reported task held while this leader did not hear of it, and its end. An end that the
// registry may have counts only if it came after the last record.
func (r *tasks) countUnheard(t *task, before api.TaskState, first bool) {
	if before.Terminal() {
		return
	}
	until, ended := r.now, t.status.State.Terminal()
	if ended && t.status.At.Before(until) {
		until = t.status.At
	}
	switch {
	case t.held:
	case !t.counted.IsZero():
		r.accounts.HeldBefore(r.accountOfTask(t), t.resources, t.counted, until)
	case first:
		r.accounts.HeldBefore(r.accountOfTask(t), t.resources, r.accounts.Unrecorded(t.launched), until)
	}
	if before != api.TaskUnspecified || first && r.accounts.Unrecorded(t.status.At).Equal(t.status.At.Round(0)) {
		r.countEnd(t)
	}
}

// countEnded counts the tasks of an agent that have ended since the last record, and whose schedulers have acknowledged
// that. Only their agent still knows them. It is not believed that they held more than it has, or as much again of what
// is revocable.
func (r *tasks) countEnded(a *agent, stubs []protocol.TaskStub) {
	from := r.accounts.Unrecorded(time.Time{})
	room := make(map[string]int64)
	for _, item := range a.Total.Items() {
		room[item.Name] += 2 * int64(item.Scalar) * r.now.Round(0).Sub(from).Milliseconds()
	}
	for _, stub := range stubs {
		until := stub.Status.At.Round(0)
		if !until.After(from) || stub.Resources.Check() != nil || !stub.Status.State.Terminal() {
			continue
		}
		if now := r.now.Round(0); until.After(now) {
			until = now
		}
		since := r.accounts.Unrecorded(stub.LaunchedAt)
		for _, item := range stub.Resources.Items() {
			if room[item.Name] -= int64(item.Scalar) * max(until.Sub(since).Milliseconds(), 0); room[item.Name] < 0 {
				r.warn("ended tasks are not counted", field("agent", a.id), field("why", "it says that they held more "+item.Name+" than it has"))
				return
			}
		}
		known := r.registry.Frameworks[stub.Framework].Framework
		account := r.accountOf(stub.Framework, &known, stub.Role, stub.Job)
		r.accounts.HeldBefore(account, stub.Resources, since, until)
		r.countEndIn(account, stub.Status.State)
	}
}

// countExecutorUnheard counts what a reported executor held since the last record, or since the launch that started it.
func (r *executors) countExecutorUnheard(x *executor, rx protocol.ReportedExecutor, got *report) {
	if !got.first || x.resources.IsZero() {
		return
	}
	launched := got.launches()[api.LaunchID{Term: rx.LaunchTerm, Number: rx.LaunchNumber}]
	r.accounts.HeldBefore(x.account, x.resources, r.accounts.Unrecorded(launched), r.now)
}

// launches returns when the tasks of a report were launched that run or have ended.
func (r *report) launches() map[api.LaunchID]time.Time {
	if r.launched == nil {
		r.launched = make(map[api.LaunchID]time.Time, len(r.tasks)+len(r.stubs))
		for _, t := range r.tasks {
			r.launched[t.Status.Launch] = t.LaunchedAt
		}
		for _, stub := range r.stubs {
			r.launched[stub.Status.Launch] = stub.LaunchedAt
		}
	}
	return r.launched
}
