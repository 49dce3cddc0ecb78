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
	"github.com/tenderhq/tender/framework/internal/verdict"
)

// Defaults of [Rolling].
const (
	// DefaultProof is how long a new task of a rolling change has to run well.
	DefaultProof = 10 * time.Second
	// DefaultPatience is how much longer than that it may take to prove itself.
	DefaultPatience = 10 * time.Minute
)

// Rolling says how a service changes.
type Rolling struct {
	// AtOnce is how many of its items may be in change at one time. Default 1. No more than
	// that are down for the change, or, with Beside, run beside what they replace.
	AtOnce int
	// Proof is how long a new task must have been up before the next item's turn: RUNNING, and
	// healthy where its health is told or it has a check for readiness. Default 10 s; negative: the moment it is up.
	Proof time.Duration
	// Patience is how much longer a new task may take for that from its first RUNNING. One that needs longer is bad.
	// Default 10 min; negative: for ever.
	Patience time.Duration
	// Failures is how many new tasks may be bad, and are tried again, before the change stops.
	// Default 0: the first one stops it. Whoever takes over after a failover counts anew.
	Failures int
	// Back takes all items back to what the service was when the change stops, in the same way.
	// Without it those that were proven stay changed.
	Back bool
	// Beside starts the new task before the old one is killed, which needs room for both:
	// where Apart allows one task on each agent, an agent more than items. Without it the old
	// one ends first.
	Beside bool
}

// Progress is how far a rolling change is.
type Progress struct {
	Service string
	Version string // that is rolled out, see [VersionLabel]
	Items   int
	New     int // items that run it and are proven
	Trying  int // items that are in change
	Done    bool
	// Stopped: too many new tasks were bad; Why names the last one and says how it ended.
	Stopped bool
	Why     string
	// Back: this is the way back from a change that has stopped; Why is that one's.
	Back bool
}

// roll is a rolling change of a service.
type roll struct {
	Rolling
	of      *service
	to      Item
	version string
	trying  int // items
	bad     int // new tasks
	end     rollEnd
	why     string
	back    bool // it takes back a change that has stopped
}

// rollEnd is how a change has ended.
type rollEnd uint8

const (
	rollGoesOn rollEnd = iota
	rollDone
	rollStopped
)

// rollouts are the services that Scale keeps and their rolling changes.
type rollouts struct {
	state    *state
	services map[string]*service
	rolling  map[string]*service // those whose change goes on
	rolled   []Progress          // not told yet
}

// trial is what is known of an item while it is being changed.
type trial struct {
	roll   *roll
	before *Item // what it was, if that is known
	proof  *alarm
	late   *alarm   // when the new task's time to prove itself is over
	fresh  *attempt // whose time that is
}

var errNoService = errors.New("no service of this name is kept; Scale keeps one")

// Roll changes the service that Scale keeps to another task, a few of its items at a time: the
// next one's turn is when a new task has proven itself, and not while others of the service
// are down. A new task that ends before that by its own fault, or does not prove itself in time, is bad: after
// [Rolling].Failures of them the change stops, says so by [Config.Rolled], and the item goes back to what it was. What was
// proven stays changed, unless [Rolling].Back takes it back as well; another Roll mends it.
//
// Of a scheduler that was restarted Roll goes on, if it is asked for again: what runs the new version is
// known by its label. It does not know what the old ones were, so an item of a bad one then stays with the new.
// Where Config.Keep keeps the set's items all of it goes on by itself.
//
// nil means that it has begun; where all run the new version it is done at once. Another Roll of
// the service replaces it.
func (s *Set) Roll(name string, like Item, how Rolling) error {
	like = likeOf(name, like)
	if err := s.join(context.Background(), like.Role); err != nil {
		return err
	}
	return s.make(change{
		check: func() error { return s.state.rollouts.checkRoll(name, like) },
		key:   serviceKeys + name,
		value: func() (kept, error) {
			v := s.state.rollouts.services[name]
			return keepService(&service{name: name, like: v.like, n: v.n, roll: newRoll(v, like, how)})
		},
		work: func(time.Time) { s.state.rollouts.roll(newRoll(s.state.rollouts.services[name], like, how)) },
	})
}

func newRoll(of *service, to Item, how Rolling) *roll {
	how.AtOnce = max(how.AtOnce, 1)
	if how.Proof == 0 {
		how.Proof = DefaultProof
	}
	if how.Patience == 0 {
		how.Patience = DefaultPatience
	}
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
	if err := errors.Join(o.state.waiting.checkRole(like), o.state.checkTask(named(name, like))); err != nil {
		return api.E(op, api.Invalid, name, err)
	}
	return nil
}

func (o *rollouts) roll(r *roll) {
	v := r.of
	for i := range v.n { // what an earlier change has not finished is neither new nor proven
		if it := o.state.items[v.id(i)]; it != nil && it.trial != nil {
			before := it.trial.before
			o.endTrial(it)
			it.unproven = before
		}
	}
	v.roll = r
	o.rolling[v.name] = v
	o.beginSurvey(v)
}

// rollOn goes on with all changes, as far as that is possible now.
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
		}
	}
}

// rollNext replaces the next items, those first that do not run; when there are none, the change is done.
func (o *rollouts) rollNext(v *service, now time.Time) {
	r := v.roll
	o.look(v, now)
	for it := v.survey.next(); it != nil; it = v.survey.next() {
		if r.trying >= r.AtOnce || it.seat.seen == seenUp && v.survey.down >= r.AtOnce && !r.Beside {
			return
		}
		o.replace(it, r)
		o.look(v, now)
	}
	if r.trying == 0 {
		r.end = rollDone
		v.like = r.to
		o.state.changed(serviceKeys + v.name)
		o.rolled = append(o.rolled, *o.progress(v))
	}
}

// runsOld says whether the item runs another version; when nothing of it runs, whether it would.
func (it *item) runsOld(r *roll) bool {
	runs := false
	for _, a := range it.live {
		if a.holds() {
			runs = true
			if a.version != r.version {
				return true
			}
		}
	}
	return !runs && it.version != r.version
}

// takeUp goes on with an item of which the new version runs already: an earlier process has begun its change.
func (o *rollouts) takeUp(it *item, r *roll, now time.Time) {
	before := it.unproven
	if it.version != r.version {
		was := it.Item
		o.become(it, r.to)
		before = &was
	}
	it.learnReadiness(r)
	it.unproven = nil
	if !it.proven(r, now) {
		o.try(it, r, before)
	}
}

// learnReadiness: what an earlier process has launched of the new version is up when its health is told, if that one has
// a check for readiness.
func (it *item) learnReadiness(r *roll) {
	for _, a := range it.live {
		if a.version == r.version && !a.waits && awaitsReadiness(r.to.Task) {
			a.waits = true
			if a.status.Healthy == nil {
				a.good = time.Time{}
			}
		}
	}
}

// up says that a task of the item runs and is healthy.
func (it *item) up() bool {
	return slices.ContainsFunc(it.live, func(a *attempt) bool { return a.holds() && !a.good.IsZero() })
}

// newest is the attempt that runs the version, if there is one.
func (it *item) newest(version string) *attempt {
	for _, a := range slices.Backward(it.live) {
		if a.kill == verdict.NotKilled && a.holds() && a.version == version && !a.good.IsZero() {
			return a
		}
	}
	return nil
}

func (it *item) proven(r *roll, now time.Time) bool {
	a := it.newest(r.version)
	return a != nil && now.Sub(a.good) >= r.Proof
}

// replace makes the item what it is to be, and ends what runs of it: before the new task runs, or
// when that is proven.
func (o *rollouts) replace(it *item, r *roll) {
	before := it.Item
	if it.unproven != nil {
		before = *it.unproven
	}
	o.become(it, r.to)
	known := &before
	if versionOf(before) == r.version {
		known = nil
	}
	o.try(it, r, known)
	o.state.unpause(it)
	if r.Beside && it.up() {
		if o.leavePair(it, r) == nil {
			o.state.want(it, true, "")
		}
		return
	}
	runs := slices.ContainsFunc(it.live, (*attempt).holds)
	for _, a := range it.live {
		if a.holds() && a.version != r.version {
			o.state.dismiss(a)
		}
	}
	if !runs { // otherwise when the old one has ended
		o.state.ensure(it)
	}
}

// leavePair leaves one new task and one old beside it, of the old ones one that is up; of several changes in a
// row there may be more. It returns the new one; nil: there is none.
func (o *rollouts) leavePair(it *item, r *roll) (fresh *attempt) {
	var old *attempt
	for _, a := range it.live {
		switch {
		case !a.holds():
		case a.version == r.version && fresh == nil:
			fresh = a
		case a.version != r.version && old == nil:
			old = a
		case a.version != r.version && old.good.IsZero() && !a.good.IsZero():
			o.state.dismiss(old)
			old = a
		default:
			o.state.dismiss(a)
		}
	}
	return fresh
}

// trimOld ends old tasks of an item that was changed, which come back when they were thought lost. It reports whether
// the item's tasks are left to the change.
func (o *rollouts) trimOld(it *item) bool {
	if t := it.trial; t != nil && t.roll.Beside {
		fresh := o.leavePair(it, t.roll)
		for len(it.wishes) > 1 || fresh != nil && len(it.wishes) > 0 {
			o.state.waiting.unwish(it.wishes[0])
		}
		return true
	}
	for _, a := range it.live {
		if it.changed && a.holds() && a.version != it.version {
			o.state.dismiss(a)
		}
	}
	return false
}

// become gives the item another task; attempts of the old one that wait are forgotten.
func (o *rollouts) become(it *item, to Item) {
	for len(it.wishes) > 0 {
		o.state.waiting.unwish(it.wishes[0])
	}
	to.ID, to.Group, to.Role, to.Service = it.ID, it.Group, it.Role, true
	it.Item, it.version, it.changed, it.streak, it.unproven = to, versionOf(to), true, 0, nil
	o.touch(it)
}

// try watches a new task.
func (o *rollouts) try(it *item, r *roll, before *Item) {
	it.trial = &trial{roll: r, before: before}
	r.trying++
	o.touch(it)
	o.watchTrial(it)
}

// watchTrial sees to it that the proof is noticed, from the moment that a new task runs well.
func (o *rollouts) watchTrial(it *item) {
	t := it.trial
	if t == nil {
		return
	}
	o.watchLate(it, t)
	o.state.alarms.Clear(t.proof)
	t.proof = nil
	a := it.newest(t.roll.version)
	if a == nil {
		return
	}
	t.proof = o.state.alarms.Add(a.good.Add(max(t.roll.Proof, 0)), func(time.Time) { o.prove(it, a) })
}

// watchLate sees to it that a new task which runs and does not prove itself is noticed. The time of one whose agent was
// silent begins again when it is back.
func (o *rollouts) watchLate(it *item, t *trial) {
	var fresh *attempt
	for _, a := range it.live {
		if a.holds() && a.version == t.roll.version && a.status.State == api.TaskRunning {
			fresh = a
		}
	}
	if fresh == t.fresh {
		return
	}
	o.state.alarms.Clear(t.late)
	t.late, t.fresh = nil, fresh
	if fresh == nil || t.roll.Patience < 0 {
		return
	}
	limit := max(t.roll.Proof, 0) + t.roll.Patience
	t.late = o.state.alarms.Add(fresh.since.Add(limit), func(time.Time) {
		fresh.fault = fmt.Sprintf("it was not up for %v within %v of its start", max(t.roll.Proof, 0), limit)
		o.state.kill(fresh, verdict.Overdue)
	})
}

// prove ends the change of an item: its new task has run long enough, so that the old one may end.
func (o *rollouts) prove(it *item, a *attempt) {
	o.endTrial(it)
	a.copy = false
	for _, other := range it.live {
		if other != a && other.holds() {
			o.state.dismiss(other)
		}
	}
}

// endTrial notes that the item is not being changed any more.
func (o *rollouts) endTrial(it *item) {
	if t := it.trial; t != nil {
		o.state.alarms.Clear(t.proof)
		o.state.alarms.Clear(t.late)
		t.roll.trying--
		it.trial = nil
		o.touch(it)
	}
}

// bad counts a new task that has ended by its own fault. The first ones are tried again; then the change stops, and
// the item goes back to what it was. It reports whether it has done so.
func (o *rollouts) bad(it *item, a *attempt, status api.Status) bool {
	t := it.trial
	if t == nil || a.version != t.roll.version || a.kill == verdict.Unwanted {
		return false
	}
	r := t.roll
	if r.bad++; r.end != rollStopped && r.bad <= r.Failures {
		return false
	}
	o.endTrial(it)
	stops := r.end != rollStopped
	if stops {
		o.state.changed(serviceKeys + r.of.name)
		r.end, r.why = rollStopped, fmt.Sprintf("%s: %s", it.ID, cmp.Or(a.fault, words(status)))
	}
	if t.before != nil {
		o.become(it, *t.before)
		o.state.unpause(it)
		o.state.ensure(it)
	}
	if stops {
		o.rolled = append(o.rolled, *o.progress(r.of))
		o.goBack(r)
	}
	return t.before != nil
}

// goBack undoes a change that has stopped, where that was asked for and it is known what the service was.
func (o *rollouts) goBack(r *roll) {
	v := r.of
	if !r.Back || r.back || versionOf(v.like) == r.version {
		return
	}
	way := newRoll(v, v.like, r.Rolling)
	way.back, way.why = true, r.why
	o.roll(way)
}

// tryAgain starts the new task once more beside the old one, when it was lost.
func (o *rollouts) tryAgain(it *item) {
	if t := it.trial; t != nil && t.roll.Beside && it.up() && len(it.wishes) == 0 &&
		!slices.ContainsFunc(it.live, func(a *attempt) bool { return a.holds() && a.version == t.roll.version }) {
		o.state.want(it, true, "")
	}
}

// progress is how far the service's change is; nil: there was none.
func (o *rollouts) progress(v *service) *Progress {
	r := v.roll
	if r == nil {
		return nil
	}
	p := &Progress{Service: v.name, Version: r.version, Items: v.n, Trying: r.trying,
		Done: r.end == rollDone, Stopped: r.end == rollStopped, Why: r.why, Back: r.back}
	for i := range v.n {
		if it := o.state.items[v.id(i)]; it != nil && it.trial == nil && it.newest(r.version) != nil {
			p.New++
		}
	}
	return p
}
