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
	ask    api.Resources // what it takes where its executor does not run yet
	job    *job
	nodes  []string
	places []string
	number uint64 // its number in the job's queue
	taken  bool   // it is no longer in the queue
}

func placeNode(place string) string  { return "place " + place }
func placesOnly(place string) string { return "only place " + place }

// right returns the nearest level at which the task can run: Near for a task that prefers only places, else Node.
func (p *pending) right() Level {
	if len(p.nodes) == 0 {
		return Near
	}
	return Node
}

// queue holds pending tasks in order. Tasks that were taken stay in it for a while.
type queue struct {
	items []*pending
	taken int
}

// drop notes that one of the tasks was taken. It takes constant time on average.
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

// triesMax bounds how many tasks of a queue are tried for one bin.
const triesMax = 64

// fitting returns the first task that fits the bin and that allow lets go there. A nil queue is empty.
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
	number  uint64 // number of the newest task
	queued  int
	running int
	all     queue             // tasks that prefer something
	home    queue             // tasks at home everywhere
	at      map[string]*queue // the tasks of all, by node and by place

	waits [2]Wait     // before level Near, and before level Any
	level Level       // the furthest level that the job takes; a launch may set it back
	since time.Time   // since when it waits at this level; zero: it has let nothing pass
	skips int         // offers let pass at this level
	first time.Time   // start of the wait since the last launch; zero: nothing was let pass; see launched
	last  api.OfferID // the last offer that it let pass, so that each counts once
	idle  idle        // room that it has let pass and that nobody has taken since

	numbers  Numbers
	idleTold time.Duration // the part of the idle time that the masters were told
}

func (j *job) addTask(p *pending) {
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

func (j *job) removeTask(p *pending) {
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

// keys returns the keys under which the task is found in job.at.
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

// allowedTask returns what the job may take now: near, the task that it found near the bin, other, one for any place, or
// nil.
func (j *job) allowedTask(near, other *pending, now time.Time) (*pending, Level) {
	j.advanceLevel(now)
	switch {
	case near != nil && j.level >= Near:
		return near, Near
	case j.level == Any:
		return other, Any
	}
	return nil, 0
}

// advanceLevel moves the job to the level that it has reached by waiting.
func (j *job) advanceLevel(now time.Time) {
	for j.level < Any {
		wait := j.waits[j.level]
		timeOver := wait.Time > 0 && !j.since.IsZero() && now.Sub(j.since) >= wait.Time
		switch {
		case wait == Wait{}: // the job does not wait for this level, so the wait for the next one begins now as well
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

// untilNext returns how long it takes until the job moves to its next level by time alone; 0: it will not.
func (j *job) untilNext(now time.Time) time.Duration {
	j.advanceLevel(now)
	if j.level == Any || j.since.IsZero() || j.waits[j.level].Time == 0 {
		return 0
	}
	return j.since.Add(j.waits[j.level].Time).Sub(now)
}

// noteSkipped notes that the job has let the offer pass.
func (j *job) noteSkipped(offer api.OfferID, now time.Time) {
	if j.last == offer {
		return
	}
	j.last = offer
	j.beginWait(now)
	j.skips++
	j.numbers.Skipped++
}

// beginWait begins the wait, if the job does not wait yet.
func (j *job) beginWait(now time.Time) {
	if j.since.IsZero() {
		j.since = now
	}
	if j.first.IsZero() {
		j.first = now
	}
}

// endWait ends the wait and sets the level.
func (j *job) endWait(level Level) {
	j.level, j.since, j.first, j.skips = level, time.Time{}, time.Time{}, 0
}

// placementOf returns what the masters are told of the launch's placement.
func (j *job) placementOf(p *pending, level Level, now time.Time) api.Placement {
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

// countLaunch counts a launch and ends the job's wait, unless room that it has let pass is still idle.
func (j *job) countLaunch(p *pending, level Level, now time.Time) {
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
		j.endWait(level)
		return
	}
	if j.idle.none(now) {
		j.endWait(Node)
	} else {
		j.first = now // it goes on letting offers pass
	}
}
