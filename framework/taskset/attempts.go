package taskset

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/pack"
	"github.com/tenderhq/tender/internal/work"
)

// Update implements [framework.Scheduler].
func (s *Set) Update(ctx context.Context, status api.Status) error {
	id, _, ours := parseTaskID(status.Task)
	if !ours {
		return nil
	}
	if !s.isRepeated(status) {
		if err := s.handleStatus(ctx, id, status); err != nil {
			return err
		}
	}
	if err := s.endKept(ctx, id); err != nil {
		return err
	}
	delete(s.settled, status.Task)
	if s.config.Updated != nil {
		s.config.Updated(id, status)
	}
	return nil
}

// isRepeated reports whether the set has already taken in this status, which settles its task. Such a status comes again if
// the store did not take the end that followed from it; a failure must then not be counted twice.
func (s *Set) isRepeated(status api.Status) bool {
	_, before := s.settled[status.Task]
	return before && status.State.Settled()
}

// handleStatus has the set take in a status, and remembers a status that settles its task.
func (s *Set) handleStatus(ctx context.Context, id string, status api.Status) error {
	if s.config.Update != nil {
		if err := s.config.Update(ctx, id, status); err != nil {
			return err
		}
	}
	if s.config.Remember != "" {
		if err := s.rememberEnd(ctx, id, status); err != nil {
			return err
		}
	}
	_, number, _ := parseTaskID(status.Task)
	s.runWork(func(now time.Time) { s.state.hearStatus(id, number, status, now) })
	if status.State.Settled() {
		s.settled[status.Task] = struct{}{}
	}
	return nil
}

func (s *state) hearStatus(id string, number int, status api.Status, now time.Time) {
	a := s.attempts[status.Task]
	if a == nil {
		if a = s.adoptTask(id, number, status, now); a == nil {
			return
		}
	}
	wasSilent := !a.Silent.IsZero()
	first := a.Running.IsZero()
	a.noteStatus(status, now)
	s.rollouts.touchItem(a.item)
	switch {
	case status.State.Settled():
		s.endTask(a, status, now)
	case status.State == api.TaskUnreachable:
		if !wasSilent {
			s.beginSilence(a, now)
		}
		s.rollouts.watchTrial(a.item)
	default:
		if first && !a.Running.IsZero() {
			s.waiting.countExecutor(a)
		}
		if !a.Up.IsZero() {
			s.endMove(a)
		}
		if wasSilent {
			s.endSilence(a)
		}
		s.rollouts.watchTrial(a.item)
		s.watchStragglers(a.item.group, now)
	}
}

// adoptTask takes over a task of an earlier process, or one that was given up for lost. If the set has no such item, it
// kills the task and returns nil.
func (s *state) adoptTask(id string, number int, status api.Status, now time.Time) *attempt {
	it := s.items[id]
	if it == nil {
		if !status.State.Settled() {
			s.kills = append(s.kills, status.Task)
		}
		return nil
	}
	a := &attempt{Attempt: work.Attempt{Task: status.Task, Number: number, Agent: status.Agent, Since: now}, item: it}
	it.number = max(it.number, number)
	a.serves = hostOf(it.Task)
	if version := status.Labels[VersionLabel]; version == "" || version == it.version {
		a.waits = isChecked(it.Task)
	}
	s.countPlace(a, status)
	s.beginAttempt(a)
	if !status.State.Settled() {
		s.trimAttempts(it)
	}
	return a
}

// countPlace counts a task of an earlier process in the place where it runs. If the place can't be known from the status,
// because only attributes tell it, the next offer of the task's agent does; see learnPlaces.
func (s *state) countPlace(a *attempt, status api.Status) {
	known := func(place api.Place) bool {
		return place == "" || place == api.ByAgent || status.Hostname != "" && (place == api.ByZone || place == api.ByRegion)
	}
	if !known(s.config.Spread) || !known(s.config.Apart) {
		s.waiting.homeless = append(s.waiting.homeless, a)
		return
	}
	a.item.group.spread.PutAt(s.config.Spread.Of(a.Agent, status.Region, status.Zone, nil), a.Task)
	a.item.group.apart.PutAt(s.config.Apart.Of(a.Agent, status.Region, status.Zone, nil), a.Task)
}

// beginPlaced makes an attempt of a wish that was placed in the bin.
func (s *state) beginPlaced(w *wish, bin *pack.Bin, task api.Task) {
	_, number, _ := parseTaskID(task.ID)
	a := &attempt{Attempt: work.Attempt{Task: task.ID, Number: number, Agent: bin.Offer.Agent, State: api.TaskStaging, Since: time.Now()}, item: w.item}
	if w.copy {
		a.Copying = work.IsCopy
	}
	a.status = api.Status{Framework: bin.Offer.Framework, Task: a.Task, Agent: a.Agent, Executor: task.ExecutorID(), State: api.TaskStaging,
		Whereabouts: api.Whereabouts{Hostname: bin.Offer.Hostname, Region: bin.Offer.Region, Zone: bin.Offer.Zone, Labels: task.Labels}}
	a.serves, a.version, a.waits = hostOf(task), task.Labels[VersionLabel], isChecked(task)
	s.beginAttempt(a)
	a.item.group.spread.Put(bin, task)
	a.item.group.apart.Put(bin, task)
	s.numbers.Attempts++
	switch {
	case w.isMove():
		s.numbers.Moves++
	case w.copy && !w.item.Service:
		s.numbers.Copies++
	}
}

// isChecked reports whether the task has checks: such a task is not up before it has passed them.
func isChecked(task api.Task) bool { return len(task.Checks) > 0 }

// beginAttempt adds an attempt to the set's records.
func (s *state) beginAttempt(a *attempt) {
	it := a.item
	s.attempts[a.Task] = a
	it.launched++
	it.Add(a)
	a.item.group.live[a.Task] = a
	s.rollouts.touchItem(it)
	if limit := s.config.AttemptTimeout; limit > 0 && !it.Service {
		a.deadline = s.alarms.Add(a.Since.Add(limit), func(time.Time) { s.killAttempt(a, work.Overdue) })
	}
}

// trimAttempts reduces the item to one attempt, beside a copy. The others are killed.
func (s *state) trimAttempts(it *item) {
	if s.items[it.ID] != it || s.rollouts.trimOld(it) {
		return
	}
	stays, ends := it.Stays(it.Service, func(a *attempt) bool { return a.version == it.version })
	if stays == nil {
		return
	}
	s.endPause(it)
	s.waiting.dropWishes(it, func(w *wish) bool { return !w.copy })
	for _, a := range ends {
		s.killUnwanted(a)
	}
}

// beginSilence notes that the agent of the task is silent. After Config.Unreachable the item is started elsewhere.
func (s *state) beginSilence(a *attempt, now time.Time) {
	wait := s.config.Unreachable
	if wait < 0 {
		return
	}
	a.patience = s.alarms.Add(now.Add(wait), func(time.Time) {
		a.Missed = true
		s.rollouts.touchItem(a.item)
		s.ensureAttempt(a.item)
	})
	s.alarms.ringDue(now)
}

// endSilence notes that the agent of the task is no longer silent.
func (s *state) endSilence(a *attempt) {
	s.alarms.Clear(a.patience)
	a.Missed = false
	s.rollouts.touchItem(a.item)
	s.trimAttempts(a.item)
}

// endTask handles the end of a task, which may end its item too.
func (s *state) endTask(a *attempt, status api.Status, now time.Time) {
	it := a.item
	if s.items[it.ID] != it {
		it.Remove(a)
		s.forgetAttempt(a)
		s.waiting.forgetIfEmpty(it.group)
		return
	}
	end := it.End(a, status, now, s.rulesOf(it))
	s.forgetAttempt(a)
	s.rollouts.watchTrial(it)
	if !it.Held() { // no attempt is left of which a copy could be wanted
		s.waiting.dropWishes(it, func(w *wish) bool { return w.copy })
	}
	switch {
	case end.Verdict == work.Well:
		a.item.group.pace.Note(a.ranFor(now))
		if a.IsCopy() {
			s.numbers.CopiesWon++
		}
		s.finishItem(it, Outcome{Done: true, Status: status}, now)
		s.watchStragglers(a.item.group, now)
	case end.Verdict == work.Ignored:
		s.ensureAttempt(it)
	case end.Verdict == work.Lost:
		s.numbers.Lost++
		s.retryAfter(it, end.Pause, now)
		s.rollouts.tryAgain(it)
	default:
		s.handleFailure(a, end, status, now)
	}
}

// handleFailure goes on after an attempt that has failed.
func (s *state) handleFailure(a *attempt, end work.Outcome, status api.Status, now time.Time) {
	it := a.item
	s.numbers.Failed++
	switch {
	case s.rollouts.countBad(it, a, status):
		return
	case end.GivenUp && end.Verdict == work.Refused:
		s.giveUp(it, status, "it can't run: "+work.Words(status), now)
		return
	case end.GivenUp:
		why := work.Words(status)
		if a.Kill == work.Overdue {
			why = fmt.Sprintf("an attempt took longer than %v", s.config.AttemptTimeout)
		}
		s.giveUp(it, status, fmt.Sprintf("%d attempts failed, the last: %s", it.Failures, why), now)
		return
	}
	s.retryAfter(it, end.Pause, now)
	s.rollouts.tryAgain(it)
}

// forgetAttempt removes an attempt from the set's records, after its item has.
func (s *state) forgetAttempt(a *attempt) {
	delete(s.attempts, a.Task)
	delete(a.item.group.live, a.Task)
	s.rollouts.touchItem(a.item)
	s.waiting.homeless = slices.DeleteFunc(s.waiting.homeless, func(other *attempt) bool { return other == a })
	s.alarms.Clear(a.deadline)
	s.alarms.Clear(a.patience)
	s.waiting.uncountExecutor(a)
	a.item.group.role.delay.Ended(a.Task)
	a.item.group.spread.Ended(a.Task)
	a.item.group.apart.Ended(a.Task)
}

// ranFor returns how long the task ran, or how long ago it was launched if RUNNING was never told.
func (a *attempt) ranFor(now time.Time) time.Duration {
	if a.Running.IsZero() {
		return now.Sub(a.Since)
	}
	return now.Sub(a.Running)
}
