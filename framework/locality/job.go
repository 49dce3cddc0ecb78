package locality

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/pack"
)

// pending is a task in a job's queue.
type pending struct {
	task   api.Task
	ask    api.Resources // where its executor does not run yet
	job    *job
	nodes  []string
	places []string
	number uint64 // of its place in the job's queue
	taken  bool   // out of the queue
}

func placeNode(place string) string  { return "place " + place }
func placesOnly(place string) string { return "only place " + place }

// right is the nearest level at which the task can run.
func (p *pending) right() Level {
	if len(p.nodes) == 0 {
		return Near
	}
	return Node
}

// queue is pending tasks in order. Those that are taken stay in it for a while.
type queue struct {
	items []*pending
	taken int
}

// drop notes that one was taken. Each costs a constant on average.
func (q *queue) drop() (empty bool) {
	q.taken++
	for len(q.items) > 0 && q.items[0].taken {
		q.items = q.items[1:]
		q.taken--
	}
	if 2*q.taken > len(q.items) {
		q.items = slices.DeleteFunc(q.items, func(p *pending) bool { return p.taken })
		q.taken = 0
	}
	return len(q.items) == 0
}

// triesMax bounds how many tasks of a queue are tried for a bin.
const triesMax = 64

// fitting returns the first task that fits and may go there. A nil queue is empty.
func (q *queue) fitting(bin *pack.Bin, allow func(*pack.Bin, api.Task) bool) *pending {
	if q == nil {
		return nil
	}
	tries := 0
	for _, p := range q.items {
		if p.taken {
			continue
		}
		if (allow == nil || allow(bin, p.task)) && bin.Fits(p.task) {
			return p
		}
		if tries++; tries == triesMax {
			return nil
		}
	}
	return nil
}

// job is a queue of tasks that wait together.
type job struct {
	age     int
	number  uint64 // of the newest task
	queued  int
	running int
	all     queue             // tasks that prefer something
	home    queue             // tasks at home everywhere
	at      map[string]*queue // of all, by node and by place

	waits [2]Wait     // before Near, before Any
	level Level       // the furthest that is taken; falls back at a launch
	since time.Time   // it waits at this level; zero: nothing was let pass
	skips int         // offers let pass at this level
	first time.Time   // the first was let pass since the last launch, or that launch when room was idle then; zero: none
	last  api.OfferID // let pass; each counts once
	idle  idle        // room that was let pass and that nobody has taken since

	numbers  Numbers
	idleTold time.Duration // what of the idle time the masters were told
}

func (j *job) add(p *pending) {
	j.number++
	p.number = j.number
	j.queued++
	if len(p.nodes)+len(p.places) == 0 {
		j.home.items = append(j.home.items, p)
		return
	}
	j.all.items = append(j.all.items, p)
	for _, key := range p.keys() {
		if j.at[key] == nil {
			j.at[key] = new(queue)
		}
		j.at[key].items = append(j.at[key].items, p)
	}
}

func (j *job) remove(p *pending) {
	p.taken = true
	j.queued--
	if len(p.nodes)+len(p.places) == 0 {
		j.home.drop()
		return
	}
	j.all.drop()
	for _, key := range p.keys() {
		if j.at[key].drop() {
			delete(j.at, key)
		}
	}
}

// keys are where the task is found in job.at.
func (p *pending) keys() []string {
	keys := slices.Clone(p.nodes)
	for _, place := range p.places {
		keys = append(keys, placeNode(place))
		if len(p.nodes) == 0 {
			keys = append(keys, placesOnly(place))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (j *job) onNode(bin *pack.Bin, allow func(*pack.Bin, api.Task) bool) *pending {
	byAgent := j.at[agentNode(bin.Offer.Agent)].fitting(bin, allow)
	byHost := j.at[hostNode(bin.Offer.Hostname)].fitting(bin, allow)
	if byAgent == nil || byHost != nil && byHost.number < byAgent.number {
		return byHost
	}
	return byAgent
}

// allowed is what the job may take now of what it found near and anywhere.
func (j *job) allowed(near, other *pending, now time.Time) (*pending, Level) {
	j.advance(now)
	switch {
	case near != nil && j.level >= Near:
		return near, Near
	case j.level == Any:
		return other, Any
	}
	return nil, 0
}

// advance moves the job to the level that its waiting has reached.
func (j *job) advance(now time.Time) {
	for j.level < Any {
		wait := j.waits[j.level]
		timeOver := wait.Time > 0 && !j.since.IsZero() && now.Sub(j.since) >= wait.Time
		switch {
		case wait == Wait{}: // does not wait, so the next level's wait begins now as well
		case timeOver:
			j.since = j.since.Add(wait.Time)
		case wait.Skips > 0 && j.skips >= wait.Skips:
			j.since = now
		default:
			return
		}
		if (wait != Wait{}) {
			j.skips = 0
		}
		j.level++
	}
}

// untilNext is how long until time alone takes the job to its next level; 0: time alone
// will not.
func (j *job) untilNext(now time.Time) time.Duration {
	j.advance(now)
	if j.level == Any || j.since.IsZero() || j.waits[j.level].Time == 0 {
		return 0
	}
	return j.since.Add(j.waits[j.level].Time).Sub(now)
}

// skipped notes that the job let an offer pass.
func (j *job) skipped(offer api.OfferID, now time.Time) {
	if j.last == offer {
		return
	}
	j.last = offer
	j.wait(now)
	j.skips++
	j.numbers.Skipped++
}

// wait begins to wait, if the job does not yet.
func (j *job) wait(now time.Time) {
	if j.since.IsZero() {
		j.since = now
	}
	if j.first.IsZero() {
		j.first = now
	}
}

// rest stops waiting, at the level.
func (j *job) rest(level Level) {
	j.level, j.since, j.first, j.skips = level, time.Time{}, time.Time{}, 0
}

// placement is what the masters are told of a launch.
func (j *job) placement(p *pending, level Level, now time.Time) api.Placement {
	if len(p.nodes)+len(p.places) == 0 {
		return api.Placement{}
	}
	placement := api.Placement{Level: api.PlacedNode + api.PlacementLevel(level)}
	if !j.first.IsZero() {
		placement.Waited = now.Sub(j.first)
	}
	idle := j.idle.total(now)
	placement.Idle, j.idleTold = idle-j.idleTold, idle
	return placement
}

// launched counts a launch and ends the wait for it.
func (j *job) launched(p *pending, level Level, now time.Time) {
	j.running++
	if len(p.nodes)+len(p.places) == 0 {
		j.numbers.Home++
		return
	}
	j.numbers.Launched[level]++
	if !j.first.IsZero() {
		wait := now.Sub(j.first)
		j.numbers.Waited += wait
		j.numbers.Longest = max(j.numbers.Longest, wait)
	}
	if level > p.right() {
		j.rest(level)
		return
	}
	if j.idle.none(now) {
		j.rest(Node)
	} else {
		j.first = now // it goes on letting pass
	}
}
