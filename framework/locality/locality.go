// Package locality runs tasks where their data is, by delay scheduling (Zaharia et al.,
// EuroSys 2010): a job that is offered a wrong place lets it pass for a while, because a
// right one will be free soon, and takes what comes when it has waited long enough.
//
// A [Delay] stands between offers and tasks: give it pending tasks with the places they
// prefer, ask it for the answers to offers, tell it of tasks that have ended. It holds
// no session, no goroutine and no lock: call it from the scheduler's callbacks.
//
//	d := locality.New(locality.Config{Node: locality.Wait{Time: 5 * time.Second}})
//	d.Add("job-1", task, locality.Prefer{Agents: []api.AgentID{"agent-3"}})
//	return d.Offers(offers)
//
// Jobs with fewer running tasks go first. Three levels are tried in turn: a preferred
// agent (Node), one that is near it, in the same rack or zone (Near), any agent (Any).
// How long a job waits before each further level is its choice, by time or by skipped
// offers; the wait starts when the job first lets pass an offer that had room for it. A
// job that had to go further stays there until it runs a task on a preferred agent.
//
// A launch on a preferred agent ends the wait only when no room is idle that the job has let
// pass. As the paper has it, each such launch would begin the wait anew: a hot agent that frees
// a slot now and then keeps a job from ever using the others, which stand idle (Spark did so up
// to version 3.0, SPARK-18886, and has the rule here since 3.1). Room counts as idle from the
// offer that was let pass until one of its agent finds nothing to let pass, or does not come
// any more: then others use it. [Numbers] counts it.
package locality

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/pack"
)

// Level is how near a task runs to what it prefers.
type Level uint8

// The levels.
const (
	Node Level = iota // on a preferred agent
	Near              // in the rack or zone of one
	Any               // anywhere
)

func (l Level) String() string {
	names := [...]string{"node", "near", "any"}
	if int(l) < len(names) {
		return names[l]
	}
	return "unknown"
}

// Wait is how long a job holds out for a level. Whichever limit is set and reached
// first ends it; the zero value does not wait at all.
type Wait struct {
	Time  time.Duration
	Skips int // offers with room for it that the job let pass
}

// Config says how jobs wait that do not say it themselves.
type Config struct {
	// Node is how long a job waits for a preferred agent before it takes one near.
	// Default: not at all.
	Node Wait
	// Near is how long it waits after that before it takes any agent. Default: not at all.
	Near Wait
	// Place names the rack or zone of an offer's agent; "" = near nothing. Default: the
	// attribute "rack", and without one the zone.
	Place func(api.Offer) string
	// Withhold has [Delay.Demand] tell the masters to offer a waiting job nothing but
	// its preferred agents. That saves the offers that would be let pass; but the wait
	// then begins with the demand, and runs also while there is no room anywhere.
	Withhold bool
	// Allow refuses a task some offers whatever its wait, as in [pack.Options]; nil: none.
	Allow func(bin *pack.Bin, task api.Task) bool
	// Put is told of each task that was put into a bin; nil: nobody.
	Put func(bin *pack.Bin, task api.Task)
}

// Prefer says where a task runs best: at any of these agents or hosts, or near any of
// these places beside theirs. One that names places alone is right anywhere in them, and does
// not wait for an agent there. The zero value is at home everywhere.
type Prefer struct {
	Agents    []api.AgentID
	Hostnames []string
	Places    []string
}

// Delay is the scheduler's side of delay scheduling. Not for use by several goroutines.
type Delay struct {
	config  Config
	jobs    map[string]*job
	order   []*job // those with queued tasks: fewest running tasks first, then the oldest
	seen    int    // jobs so far
	tasks   map[api.TaskID]*pending
	running map[api.TaskID]*job
	members map[string]map[string]bool      // place -> nodes in it, as offers have shown
	hosts   map[string]map[api.AgentID]bool // hostname -> agents on it, as offers have shown
}

// New makes a Delay without jobs.
func New(config Config) *Delay {
	if config.Place == nil {
		config.Place = rackOrZone
	}
	return &Delay{
		config:  config,
		jobs:    make(map[string]*job),
		tasks:   make(map[api.TaskID]*pending),
		running: make(map[api.TaskID]*job),
		members: make(map[string]map[string]bool),
		hosts:   make(map[string]map[api.AgentID]bool),
	}
}

func rackOrZone(offer api.Offer) string {
	if rack := offer.Attributes["rack"]; rack != "" {
		return rack
	}
	if offer.Zone == "" {
		return ""
	}
	return offer.Region + "/" + offer.Zone
}

// Waits replaces the config's waits for a job, from now on.
func (d *Delay) Waits(name string, node, near Wait) {
	j := d.job(name)
	j.waits = [2]Wait{node, near}
}

func (d *Delay) job(name string) *job {
	j := d.jobs[name]
	if j == nil {
		d.seen++
		j = &job{age: d.seen, waits: [2]Wait{d.config.Node, d.config.Near}, at: make(map[string]*queue)}
		d.jobs[name] = j
	}
	return j
}

// Add puts a task into a job's queue. A task that is queued or running is not added again.
func (d *Delay) Add(name string, task api.Task, prefer Prefer) {
	if d.tasks[task.ID] != nil || d.running[task.ID] != nil {
		return
	}
	j := d.job(name)
	p := &pending{task: task, ask: pack.Ask(task), job: j, places: prefer.Places}
	for _, agent := range prefer.Agents {
		p.nodes = append(p.nodes, agentNode(agent))
	}
	for _, host := range prefer.Hostnames {
		p.nodes = append(p.nodes, hostNode(host))
	}
	d.tasks[task.ID] = p
	if j.queued == 0 {
		d.order = append(d.order, j)
	}
	j.add(p)
}

// Remove takes a task out of its queue; false: it is not there.
func (d *Delay) Remove(task api.TaskID) bool {
	p := d.tasks[task]
	if p == nil {
		return false
	}
	delete(d.tasks, task)
	p.job.remove(p)
	d.tidy(p.job)
	return true
}

// Ended tells that a running task has ended, however. One that should run again is
// added again.
func (d *Delay) Ended(task api.TaskID) {
	if j := d.running[task]; j != nil {
		delete(d.running, task)
		j.running--
	}
}

// tidy keeps a job without queued tasks from costing anything but its numbers.
func (d *Delay) tidy(j *job) {
	if j.queued == 0 {
		j.idle.end(time.Now())
		j.rest(j.level)
		d.order = slices.DeleteFunc(d.order, func(other *job) bool { return other == j })
	}
}

// Forget drops a job with its queue and numbers. Its running tasks count for nobody.
func (d *Delay) Forget(name string) {
	j := d.jobs[name]
	if j == nil {
		return
	}
	delete(d.jobs, name)
	d.order = slices.DeleteFunc(d.order, func(other *job) bool { return other == j })
	for id, p := range d.tasks { // order: irrelevant because all of the job's go
		if p.job == j {
			delete(d.tasks, id)
		}
	}
}

// Queued is how many tasks of the job wait; of all jobs for "".
func (d *Delay) Queued(name string) int {
	if name == "" {
		return len(d.tasks)
	}
	if j := d.jobs[name]; j != nil {
		return j.queued
	}
	return 0
}

// Offers answers offers: tasks where they may run now; the rest is declined, for no
// longer than until a job might take it.
func (d *Delay) Offers(offers []api.Offer) []api.Answer {
	answers := make([]api.Answer, 0, len(offers))
	for _, bin := range pack.Bins(offers) {
		d.Fill(bin)
		answer := api.Answer{Offers: []api.OfferID{bin.Offer.ID}, Filter: api.Filter{Refuse: d.Refuse(bin)}}
		if len(bin.Tasks) > 0 {
			answer.Operations = []api.Operation{{Kind: api.OpLaunch, Tasks: bin.Tasks}}
		}
		answers = append(answers, answer)
	}
	return answers
}

// Fill puts the tasks that may run there now into the bin, for those who put others
// beside them; they are launched. [Delay.Offers] does it for whole offers.
func (d *Delay) Fill(bin *pack.Bin) {
	now := time.Now()
	d.learn(bin.Offer)
	for d.fill(bin, now) {
	}
	d.noteIdle(bin, now)
}

// learn notes which nodes are near each other.
func (d *Delay) learn(offer api.Offer) {
	if d.hosts[offer.Hostname] == nil {
		d.hosts[offer.Hostname] = make(map[api.AgentID]bool)
	}
	d.hosts[offer.Hostname][offer.Agent] = true
	place := d.config.Place(offer)
	if place == "" {
		return
	}
	if d.members[place] == nil {
		d.members[place] = make(map[string]bool)
	}
	d.members[place][agentNode(offer.Agent)] = true
	d.members[place][hostNode(offer.Hostname)] = true
}

func agentNode(agent api.AgentID) string { return "agent " + string(agent) }
func hostNode(host string) string        { return "host " + host }

// fill puts one more task into the bin; false: none may run there now.
func (d *Delay) fill(bin *pack.Bin, now time.Time) bool {
	if bin.Left.IsZero() {
		return false
	}
	slices.SortFunc(d.order, func(a, b *job) int { return cmp.Or(a.running-b.running, a.age-b.age) })
	for _, j := range d.order {
		p, level := d.choose(j, bin, now)
		if p == nil {
			continue
		}
		p.task.Placement = j.placement(p, level, now)
		bin.Put(p.task)
		if d.config.Put != nil {
			d.config.Put(bin, bin.Tasks[len(bin.Tasks)-1])
		}
		delete(d.tasks, p.task.ID)
		j.remove(p)
		d.running[p.task.ID] = j
		j.launched(p, level, now)
		d.tidy(j)
		return true
	}
	return false
}

// choose finds the job's task for the bin at the nearest level it may take. A job that
// takes nothing though something has room has let the offer pass, which may have been
// the last one to wait for.
func (d *Delay) choose(j *job, bin *pack.Bin, now time.Time) (*pending, Level) {
	if p := j.onNode(bin, d.config.Allow); p != nil {
		return p, Node
	}
	if p := j.home.fitting(bin, d.config.Allow); p != nil {
		return p, Any
	}
	if p := d.inPlace(j, bin); p != nil {
		return p, Near
	}
	other := j.all.fitting(bin, d.config.Allow)
	if other == nil {
		return nil, 0
	}
	near := d.near(j, bin)
	if p, level := j.allowed(near, other, now); p != nil {
		return p, level
	}
	j.skipped(bin.Offer.ID, now)
	return j.allowed(near, other, now)
}

// inPlace finds a task that prefers the bin's place and no node: nowhere is nearer.
func (d *Delay) inPlace(j *job, bin *pack.Bin) *pending {
	place := d.config.Place(bin.Offer)
	if place == "" {
		return nil
	}
	return j.at[placesOnly(place)].fitting(bin, d.config.Allow)
}

// near finds a task that prefers something in the bin's place.
func (d *Delay) near(j *job, bin *pack.Bin) *pending {
	place := d.config.Place(bin.Offer)
	if place == "" {
		return nil
	}
	if p := j.at[placeNode(place)].fitting(bin, d.config.Allow); p != nil {
		return p
	}
	best := (*pending)(nil)
	for node := range d.members[place] { // order: irrelevant because the oldest task is taken
		if p := j.at[node].fitting(bin, d.config.Allow); p != nil && (best == nil || p.number < best.number) {
			best = p
		}
	}
	return best
}

const (
	// refuseMin keeps offers from going to and fro.
	refuseMin = 100 * time.Millisecond
	// refuseSkips lets offers that are counted come soon again.
	refuseSkips = time.Second
)

// Refuse is how long what is left in the bin need not be offered again: until the first
// job that lets it pass may take it. 0: the default, nobody wants it.
func (d *Delay) Refuse(bin *pack.Bin) time.Duration {
	now := time.Now()
	var least time.Duration
	if bin.Left.IsZero() {
		return 0
	}
	for _, j := range d.order {
		if j.all.fitting(bin, d.config.Allow) == nil {
			continue
		}
		left := j.untilNext(now)
		if left == 0 {
			left = refuseSkips
		}
		if left = max(left, refuseMin); least == 0 || left < least {
			least = left
		}
	}
	return least
}
