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

// Level is how near a task runs to the agents that it prefers.
type Level uint8

// The levels, the nearest first.
const (
	Node Level = iota // on a preferred agent
	Near              // in the rack or zone of a preferred agent
	Any               // anywhere
)

func (l Level) String() string {
	names := [...]string{"node", "near", "any"}
	if int(l) < len(names) {
		return names[l]
	}
	return "unknown"
}

// Wait says how long a job waits at a level before it takes the next one. The wait ends when one of the limits that are
// set is reached. The zero value does not wait at all.
type Wait struct {
	Time  time.Duration
	Skips int // offers that had room for the job and that it let pass
}

// Config says how long jobs wait, unless [Delay.Waits] says otherwise for a job.
type Config struct {
	// Node is how long a job waits for a preferred agent before it takes one that is near. Default: not at all.
	Node Wait
	// Near is how long a job waits after that before it takes any agent. Default: not at all.
	Near Wait
	// Place returns the rack or zone of the offer's agent; "": it is near nothing. Default: the attribute "rack", or
	// the zone if there is no such attribute.
	Place func(api.Offer) string
	// Withhold makes [Delay.Demand] tell the masters to offer a waiting job only its preferred agents. That saves the
	// offers that the job would let pass. But the wait then begins with the demand, and goes on even while no agent has
	// room.
	Withhold bool
	// Allow says whether a task may go into the bin at all, however long it has waited, as in [pack.Options]; nil:
	// always.
	Allow func(bin *pack.Bin, task api.Task) bool
	// Put is called for each task that was put into a bin; nil: not at all.
	Put func(bin *pack.Bin, task api.Task)
}

// Prefer says where a task runs best: on any of these agents or hosts, or near them, or in any of these places. A task
// that prefers only places is right anywhere in them and does not wait for an agent. The zero value prefers nothing.
type Prefer struct {
	Agents    []api.AgentID
	Hostnames []string
	Places    []string
}

// Delay is the scheduler's part of delay scheduling. It must not be used by several goroutines at the same time.
type Delay struct {
	config  Config
	jobs    map[string]*job
	order   []*job // jobs with queued tasks: the fewest running tasks first, then the oldest
	seen    int    // number of jobs so far
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

// Waits replaces the waits of the Config for one job, from now on.
func (d *Delay) Waits(name string, node, near Wait) {
	j := d.jobNamed(name)
	j.waits = [2]Wait{node, near}
}

func (d *Delay) jobNamed(name string) *job {
	j := d.jobs[name]
	if j == nil {
		d.seen++
		j = &job{age: d.seen, waits: [2]Wait{d.config.Node, d.config.Near}, at: make(map[string]*queue)}
		d.jobs[name] = j
	}
	return j
}

// Add puts a task into a job's queue. A task that is queued or running already is not added again.
func (d *Delay) Add(name string, task api.Task, prefer Prefer) {
	if d.tasks[task.ID] != nil || d.running[task.ID] != nil {
		return
	}
	j := d.jobNamed(name)
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
	j.addTask(p)
}

// Remove takes a task out of its queue; false: it is in none.
func (d *Delay) Remove(task api.TaskID) bool {
	p := d.tasks[task]
	if p == nil {
		return false
	}
	delete(d.tasks, task)
	p.job.removeTask(p)
	d.tidyOrder(p.job)
	return true
}

// Ended says that a running task has ended, however it ended. If it should run again, add it again.
func (d *Delay) Ended(task api.TaskID) {
	if j := d.running[task]; j != nil {
		delete(d.running, task)
		j.running--
	}
}

// tidyOrder removes a job without queued tasks from the order, so that it costs nothing but its numbers.
func (d *Delay) tidyOrder(j *job) {
	if j.queued == 0 {
		j.idle.end(time.Now())
		j.endWait(j.level)
		d.order = slices.DeleteFunc(d.order, func(other *job) bool { return other == j })
	}
}

// Forget drops a job with its queue and its numbers. Its running tasks no longer count.
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

// Queued returns how many tasks of the job are queued; of all jobs for "".
func (d *Delay) Queued(name string) int {
	if name == "" {
		return len(d.tasks)
	}
	if j := d.jobs[name]; j != nil {
		return j.queued
	}
	return 0
}

// Offers answers offers with the tasks that may run there now. The rest is declined, for no longer than until a job
// might take it.
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

// Fill puts the tasks that may run there now into the bin, and counts them as launched. It is for schedulers that put
// other tasks into the bin as well; [Delay.Offers] does the same for whole offers.
func (d *Delay) Fill(bin *pack.Bin) {
	now := time.Now()
	d.learnPlaces(bin.Offer)
	for d.fillBin(bin, now) {
	}
	d.noteIdle(bin, now)
}

// learnPlaces notes which nodes are in the same place.
func (d *Delay) learnPlaces(offer api.Offer) {
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

// fillBin puts one more task into the bin; false: no task may run there now.
func (d *Delay) fillBin(bin *pack.Bin, now time.Time) bool {
	if bin.Left.IsZero() {
		return false
	}
	slices.SortFunc(d.order, func(a, b *job) int { return cmp.Or(a.running-b.running, a.age-b.age) })
	for _, j := range d.order {
		p, level := d.chooseTask(j, bin, now)
		if p == nil {
			continue
		}
		p.task.Placement = j.placementOf(p, level, now)
		bin.Put(p.task)
		if d.config.Put != nil {
			d.config.Put(bin, bin.Tasks[len(bin.Tasks)-1])
		}
		delete(d.tasks, p.task.ID)
		j.removeTask(p)
		d.running[p.task.ID] = j
		j.countLaunch(p, level, now)
		d.tidyOrder(j)
		return true
	}
	return false
}

// chooseTask returns the task of the job for the bin, at the nearest level that the job may take. If the job may take no
// level although a task fits, it lets the offer pass. With that its wait may be over, so it is asked once more.
func (d *Delay) chooseTask(j *job, bin *pack.Bin, now time.Time) (*pending, Level) {
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
	near := d.findNearTask(j, bin)
	if p, level := j.allowedTask(near, other, now); p != nil {
		return p, level
	}
	j.noteSkipped(bin.Offer.ID, now)
	return j.allowedTask(near, other, now)
}

// inPlace returns a task that prefers the bin's place and no nodes; for such a task no agent is nearer.
func (d *Delay) inPlace(j *job, bin *pack.Bin) *pending {
	place := d.config.Place(bin.Offer)
	if place == "" {
		return nil
	}
	return j.at[placesOnly(place)].fitting(bin, d.config.Allow)
}

// findNearTask returns a task that prefers the bin's place, or a node in that place.
func (d *Delay) findNearTask(j *job, bin *pack.Bin) *pending {
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
	// refuseMin keeps an offer from coming again and again at once.
	refuseMin = 100 * time.Millisecond
	// refuseSkips is the filter where a job waits by counting offers, so that they come again soon.
	refuseSkips = time.Second
)

// Refuse returns for how long what is left in the bin need not be offered again: until the first job that lets it pass
// may take it. 0: no job wants it, so the default filter will do.
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
		left = cmp.Or(left, refuseSkips)
		if left = max(left, refuseMin); least == 0 || left < least {
			least = left
		}
	}
	return least
}
