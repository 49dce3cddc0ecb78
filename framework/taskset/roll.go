package taskset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/work"
)

// Defaults of [Rolling].
const (
	// DefaultProof is how long a new task of a rolling change must have been up by default.
	DefaultProof = 10 * time.Second
	// DefaultPatience is how much longer than Proof a new task may take by default until it has proven itself.
	DefaultPatience = 10 * time.Minute
)

// Rolling says how a service is changed.
type Rolling struct {
	// AtOnce is how many of the service's items may be in change at a time. Default 1. No more items than this are down
	// because of the change or, with Beside, run beside the task that they replace.
	AtOnce int
	// Proof is how long a new task must have been up before the next item is changed. A task is up while it is RUNNING,
	// and healthy if its health is told or it has checks. Default 10 s, and at least as long as the checks of a task that
	// has passed them need to find that it no longer does (failures times interval and timeout); negative: the task need
	// only have come up.
	Proof time.Duration
	// Patience is how much longer than Proof a new task may take, from its first RUNNING, until it has proven itself. A
	// task that takes longer is bad. Default 10 min; negative: no limit.
	Patience time.Duration
	// Failures is how many new tasks may be bad and are tried again before the change stops. Default 0: the first bad
	// one stops it. A scheduler that takes over after a failover counts anew.
	Failures int
	// Back changes all items back, in the same way, when the change stops. Without it the items whose new tasks have
	// proven themselves stay changed.
	Back bool
	// Beside starts an item's new task before it kills the old one. That needs room for both: where Apart allows one
	// task on each agent, one agent more than items. Without it the old task ends first.
	Beside bool
}

// Progress tells how far a rolling change has come.
type Progress struct {
	Service string
	Version string // the version that is rolled out, see [VersionLabel]
	Items   int
	New     int // items that run the new version and have proven themselves
	Trying  int // items that are in change
	Done    bool
	// Stopped says that too many new tasks were bad; Why names the last of them and how it ended.
	Stopped bool
	Why     string
	// Back says that this change takes back one that has stopped; Why is the reason of that one.
	Back bool
}

// roll is a rolling change of a service.
type roll struct {
	Rolling
	of      *service
	to      Item
	version string
	trying  int // items in change
	bad     int // new tasks that were bad
	end     rollEnd
	why     string
	back    bool // it takes back a change that has stopped
}

// rollEnd says how a change has ended, or that it goes on.
type rollEnd uint8

const (
	rollGoesOn rollEnd = iota
	rollDone
	rollStopped
)

// rollouts holds the services that Scale keeps running, and their rolling changes.
type rollouts struct {
	state    *state
	services map[string]*service
	rolling  map[string]*service // services whose change goes on
	rolled   []Progress          // changes that Config.Rolled was not told of yet
}

// trial is the change of one item, until the new task has proven itself.
type trial struct {
	roll   *roll
	before *Item // what the item was before, if that is known
	proof  *alarm
	late   *alarm // when the new task's time to prove itself is over
}

var errNoService = errors.New("no service of this name is kept; Scale keeps one")

// Roll changes the service that Scale keeps to another task, a few of its items at a time. The next item is changed
// when a new task has proven itself, and not while too many of the service's items are down. A new task is bad if it
// ends by its own fault before it has proven itself, or does not prove itself in time. After [Rolling].Failures bad
// tasks the change stops; [Config].Rolled is told, and the item of the last bad task goes back to what it was. Items
// whose new tasks have proven themselves stay changed, unless [Rolling].Back takes them back as well. To repair the
// service, call Roll again.
//
// After a restart of the scheduler call Roll again, and it goes on: the tasks' labels show which run the new version.
// But Roll does not know then what the old tasks were, so an item whose new task is bad stays with the new one. If
// Config.Keep keeps the items, the change goes on by itself and completely.
//
// nil means that the change has begun; if all items run the new version already, it is done at once. Another Roll of
// the service replaces the change.
func (s *Set) Roll(ctx context.Context, name string, like Item, how Rolling) error {
	like = likeOf(name, like)
	if err := s.joinRoles(ctx, like.Role); err != nil {
		return err
	}
	return s.makeChanges(ctx, change{
		check: func() error { return s.state.rollouts.checkRoll(name, like) },
		key:   serviceKeys + name,
		value: func() (*kept, error) {
			v := s.state.rollouts.services[name]
			return keepService(&service{name: name, like: v.like, n: v.n, roll: newRoll(v, like, how)})
		},
		work: func(time.Time) { s.state.rollouts.beginRoll(newRoll(s.state.rollouts.services[name], like, how)) },
	})
}

func newRoll(of *service, to Item, how Rolling) *roll {
	how.AtOnce = max(how.AtOnce, 1)
	if how.Proof >= 0 {
		how.Proof = max(cmp.Or(how.Proof, DefaultProof), work.TimeToFail(to.Task.Checks))
	}
	how.Patience = cmp.Or(how.Patience, DefaultPatience)
	return &roll{Rolling: how, of: of, to: to, version: versionOf(to)}
}

func (o *rollouts) checkRoll(name string, like Item) error {
	const op = "taskset.roll"
	v := o.services[name]
	if v == nil {
		return api.E(op, api.NotFound, name, errNoService)
	}
	if like.Group != v.like.Group {
		return api.E(op, api.Invalid, name, fmt.Errorf("the service's group is %q, the new item names %q; it can't change", v.like.Group, like.Group))
	}
	if err := errors.Join(o.state.waiting.checkRole(like), o.state.checkTask(nameItem(name, like))); err != nil {
		return api.E(op, api.Invalid, name, err)
	}
	return nil
}

func (o *rollouts) beginRoll(r *roll) {
	v := r.of
	for i := range v.n { // what an earlier change has begun and not finished does not count as proven
		if it := o.state.items[v.itemID(i)]; it != nil && it.trial != nil {
			before := it.trial.before
			o.endTrial(it)
			it.unproven = before
		}
	}
	v.roll = r
	o.rolling[v.name] = v
	v.survey.Begin(v.n)
}

// rollOn continues all changes as far as they can go now.
func (o *rollouts) rollOn(now time.Time) {
	if !o.state.known {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(o.rolling)) {
		v := o.rolling[name]
		if v.roll.end != rollStopped && v.roll.trying < v.roll.AtOnce {
			o.rollNext(v, now)
		}
		if v.roll.trying == 0 && v.roll.end != rollGoesOn {
			delete(o.rolling, name)
			v.survey = work.Survey{}
		}
	}
}

// rollNext changes the next items. When no item is left, the change is done.
func (o *rollouts) rollNext(v *service, now time.Time) {
	r := v.roll
	o.lookAtItems(v, now)
	for number, is := v.survey.Next(r.AtOnce, r.Beside); is; number, is = v.survey.Next(r.AtOnce, r.Beside) {
		o.replaceTask(o.state.items[v.itemID(number)], r)
		o.lookAtItems(v, now)
	}
	if r.trying == 0 && v.survey.Count(work.Old) == 0 {
		r.end = rollDone
		v.like = r.to
		o.state.noteChange(serviceKeys + v.name)
		o.rolled = append(o.rolled, *o.progressOf(v))
	}
}

// lookAtItems has the survey look at the items that were touched. It continues the change of an item that already runs the new
// version.
func (o *rollouts) lookAtItems(v *service, now time.Time) {
	v.survey.Look(func(number int) (work.Stand, bool) {
		it := o.state.items[v.itemID(number)]
		switch {
		case it == nil || it.service != v:
			return work.Absent, false
		case it.trial != nil:
		case it.runsOld(v.roll):
			return work.Old, it.isUp()
		default:
			if o.takeUp(it, v.roll, now); it.trial == nil {
				return work.Changed, it.isUp()
			}
		}
		return work.Tried, it.isUp()
	})
}

// touchItem has the item looked at again, because something of it or of its tasks has changed.
func (o *rollouts) touchItem(it *item) {
	if it.service != nil {
		it.service.survey.Touch(it.place)
	}
}

// runsOld reports whether the item runs another version than the change's. If nothing of it runs, it reports whether
// the item's next task would.
func (it *item) runsOld(r *roll) bool {
	runs := false
	for _, a := range it.Attempts {
		if a.Holds() {
			runs = true
			if a.version != r.version {
				return true
			}
		}
	}
	return !runs && it.version != r.version
}

// takeUp continues the change of an item that runs the new version already, because an earlier process has begun to
// change it.
func (o *rollouts) takeUp(it *item, r *roll, now time.Time) {
	before := it.unproven
	if it.version != r.version {
		was := it.Item
		o.changeItem(it, r.to)
		before = &was
	}
	it.learnChecks(r)
	it.unproven = nil
	if !it.hasProven(r, now) {
		o.tryItem(it, r, before)
	}
}

// learnChecks marks tasks that an earlier process launched with the new version: if the new task has checks, they are not
// up before they have passed them.
func (it *item) learnChecks(r *roll) {
	for _, a := range it.Attempts {
		if a.version == r.version && !a.waits && isChecked(r.to.Task) {
			a.waits = true
			if a.status.Healthy == nil {
				a.Up = time.Time{}
			}
		}
	}
}

// isUp reports whether a task of the item runs and is healthy.
func (it *item) isUp() bool {
	return slices.ContainsFunc(it.Attempts, func(a *attempt) bool { return a.Holds() && !a.Up.IsZero() })
}

// newestUp returns the newest attempt that is up and runs the version, or nil.
func (it *item) newestUp(version string) *attempt {
	return it.newestThat(version, func(a *attempt) bool { return !a.Up.IsZero() })
}

// newestThat returns the newest attempt that runs the version, is not to end and is so; nil: there is none.
func (it *item) newestThat(version string, is func(*attempt) bool) *attempt {
	for _, a := range slices.Backward(it.Attempts) {
		if a.Kill == work.NotKilled && a.Holds() && a.version == version && is(a) {
			return a
		}
	}
	return nil
}

func (it *item) hasProven(r *roll, now time.Time) bool {
	a := it.newestUp(r.version)
	return a != nil && now.Sub(a.Up) >= r.Proof
}

// replaceTask changes the item to the new task. Its old tasks are killed at once or, with Beside, when the new one has
// proven itself.
func (o *rollouts) replaceTask(it *item, r *roll) {
	before := it.Item
	if it.unproven != nil {
		before = *it.unproven
	}
	o.changeItem(it, r.to)
	known := &before
	if versionOf(before) == r.version {
		known = nil
	}
	o.tryItem(it, r, known)
	o.state.endPause(it)
	if r.Beside && it.isUp() {
		if o.leavePair(it, r) == nil {
			o.state.wantAttempt(it, true, "")
		}
		return
	}
	runs := it.Held()
	for _, a := range it.Attempts {
		if a.Holds() && a.version != r.version {
			o.state.killUnwanted(a)
		}
	}
	if !runs { // otherwise the end of the old task starts the new one
		o.state.ensureAttempt(it)
	}
}

// leavePair reduces the item to one new task and one old one, preferably one that is up; after several changes in a row
// there may be more. It returns the new one, or nil if there is none.
func (o *rollouts) leavePair(it *item, r *roll) (fresh *attempt) {
	var old *attempt
	for _, a := range it.Attempts {
		switch {
		case !a.Holds():
		case a.version == r.version && fresh == nil:
			fresh = a
		case a.version != r.version && old == nil:
			old = a
		case a.version != r.version && old.Up.IsZero() && !a.Up.IsZero():
			o.state.killUnwanted(old)
			old = a
		default:
			o.state.killUnwanted(a)
		}
	}
	return fresh
}

// trimOld ends old tasks of a changed item that were thought lost and have come back. It reports whether the change
// takes care of the item's tasks, so that trimAttempts need not.
func (o *rollouts) trimOld(it *item) bool {
	if t := it.trial; t != nil && t.roll.Beside {
		fresh := o.leavePair(it, t.roll)
		for len(it.wishes) > 1 || fresh != nil && len(it.wishes) > 0 {
			o.state.waiting.dropWish(it.wishes[0])
		}
		return true
	}
	for _, a := range it.Attempts {
		if it.changed && a.Holds() && a.version != it.version {
			o.state.killUnwanted(a)
		}
	}
	return false
}

// changeItem gives the item another task. Wishes for the old one are dropped.
func (o *rollouts) changeItem(it *item, to Item) {
	o.state.waiting.dropWishes(it, anyWish)
	to.ID, to.Group, to.Role, to.Service = it.ID, it.Group, it.Role, true
	it.Item, it.version, it.changed, it.Row, it.unproven = to, versionOf(to), true, 0, nil
	o.touchItem(it)
}

// tryItem begins to watch the item's new task.
func (o *rollouts) tryItem(it *item, r *roll, before *Item) {
	it.trial = &trial{roll: r, before: before}
	r.trying++
	o.touchItem(it)
	o.watchTrial(it)
}

// watchTrial sets the alarm at which the new task has proven itself, from the moment when it is up, and the one at which it
// is bad because it runs and has not. After a silence of the task's agent the time until then begins again.
func (o *rollouts) watchTrial(it *item) {
	t := it.trial
	if t == nil {
		return
	}
	o.state.alarms.Clear(t.proof)
	o.state.alarms.Clear(t.late)
	t.proof, t.late = nil, nil
	proof := max(t.roll.Proof, 0)
	if a := it.newestUp(t.roll.version); a != nil {
		t.proof = o.state.alarms.Add(a.Up.Add(proof), func(time.Time) { o.proveItem(it, a) })
	}
	runs := func(a *attempt) bool { return a.State == api.TaskRunning }
	if a := it.newestThat(t.roll.version, runs); a != nil && t.roll.Patience >= 0 {
		t.late = o.state.alarms.Add(a.began.Add(proof+t.roll.Patience), func(time.Time) { o.state.killAttempt(a, work.Overdue) })
	}
}

// proveItem ends the change of an item whose new task has proven itself; the old task is killed.
func (o *rollouts) proveItem(it *item, a *attempt) {
	o.endTrial(it)
	o.state.keepOnly(a)
}

// endTrial notes that the item is no longer being changed.
func (o *rollouts) endTrial(it *item) {
	if t := it.trial; t != nil {
		o.state.alarms.Clear(t.proof)
		o.state.alarms.Clear(t.late)
		t.roll.trying--
		it.trial = nil
		o.touchItem(it)
	}
}

// countBad counts a new task that has ended by its own fault or was not up in time. The first [Rolling].Failures of them are
// tried again. After that the change stops, and the item goes back to what it was; only then bad returns true.
func (o *rollouts) countBad(it *item, a *attempt, status api.Status) bool {
	t := it.trial
	if t == nil || a.version != t.roll.version || a.Kill == work.Unwanted {
		return false
	}
	r := t.roll
	if r.bad++; r.end != rollStopped && r.bad <= r.Failures {
		return false
	}
	o.endTrial(it)
	stops := r.end != rollStopped
	if stops {
		o.state.noteChange(serviceKeys + r.of.name)
		why := work.Words(status)
		if proof := max(r.Proof, 0); a.Kill == work.Overdue {
			why = fmt.Sprintf("it was not up for %v within %v of its start", proof, proof+r.Patience)
		}
		r.end, r.why = rollStopped, it.ID+": "+why
	}
	if t.before != nil {
		o.changeItem(it, *t.before)
		o.state.endPause(it)
		o.state.ensureAttempt(it)
	}
	if stops {
		o.rolled = append(o.rolled, *o.progressOf(r.of))
		o.goBack(r)
	}
	return t.before != nil
}

// goBack begins to undo a change that has stopped, if that was asked for and it is known what the service was.
func (o *rollouts) goBack(r *roll) {
	v := r.of
	if !r.Back || r.back || versionOf(v.like) == r.version {
		return
	}
	way := newRoll(v, v.like, r.Rolling)
	way.back, way.why = true, r.why
	o.beginRoll(way)
}

// tryAgain starts the new task beside the old one once more, after it was lost.
func (o *rollouts) tryAgain(it *item) {
	if t := it.trial; t != nil && t.roll.Beside && it.isUp() && len(it.wishes) == 0 &&
		!slices.ContainsFunc(it.Attempts, func(a *attempt) bool { return a.Holds() && a.version == t.roll.version }) {
		o.state.wantAttempt(it, true, "")
	}
}

// progressOf returns how far the service's change has come; nil: there was none.
func (o *rollouts) progressOf(v *service) *Progress {
	r := v.roll
	if r == nil {
		return nil
	}
	p := &Progress{Service: v.name, Version: r.version, Items: v.n, Trying: r.trying,
		Done: r.end == rollDone, Stopped: r.end == rollStopped, Why: r.why, Back: r.back}
	for i := range v.n {
		if it := o.state.items[v.itemID(i)]; it != nil && it.trial == nil && it.newestUp(r.version) != nil {
			p.New++
		}
	}
	return p
}
