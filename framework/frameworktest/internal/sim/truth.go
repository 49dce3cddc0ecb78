package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	agentcore "github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/view"
)

// truth is what has really happened, which nobody in the cluster can see completely. The promises are checked against
// it.
type truth struct {
	world    *World
	launches map[string]*launch
	order    []string
	held     map[*machine]*holdings
	short    bool // tasks end soon
	long     bool // tasks run until somebody ends them
	rounds   int
	liars    []*machine // those that have lied at some time

	kills      []operatorsKill                          // launches of which an operator was told that they end
	volumes    map[api.AgentID]map[api.VolumeID]*volume // as the quorum has decided
	frameworks map[api.FrameworkID]bool                 // that have subscribed
	decided    decided
}

// launch is one task that a scheduler has launched.
type launch struct {
	label     string
	task      api.TaskID
	scheduler *scheduler
	framework api.FrameworkID
	starts    int
	alive     *run
	machine   *machine
	end       api.Status // as its user was told
	parts     int        // parts of its result that its user was told, in order and without a gap
	killing   bool       // its user was told KILLING; from then on no progress is told
	abandoned bool       // its framework no longer exists
}

// holdings are what is in use on a machine according to its agent's records.
type holdings struct {
	tasks     map[api.TaskRef]api.Resources
	executors map[agentcore.Run]api.Resources
	term      api.Term
	killed    map[api.TaskRef]bool     // somebody has asked for their end
	removed   map[api.FrameworkID]bool // with everything that they have here
}

func newTruth(w *World) *truth {
	return &truth{world: w, launches: map[string]*launch{}, held: map[*machine]*holdings{},
		volumes: map[api.AgentID]map[api.VolumeID]*volume{}, frameworks: map[api.FrameworkID]bool{}, decided: newDecided()}
}

func (t *truth) noteLaunch(s *scheduler, task api.Task, label string) {
	t.launches[label] = &launch{label: label, task: task.ID, scheduler: s, framework: s.info.ID}
	t.order = append(t.order, label)
}

func (t *truth) noteAbandoned(label string) {
	if l := t.launches[label]; l != nil {
		l.abandoned = true
	}
}

// checkStart checks promise 2: an accepted launch starts at most once, and not at all after its user was told that it never
// would.
func (t *truth) checkStart(p *process, r *run) {
	r.alive = true
	l := t.launches[r.label]
	if l == nil {
		t.world.breakStory("a task that nobody launched starts: %s", r.task.ID)
		return
	}
	l.starts++
	l.alive, l.machine = r, p.machine
	t.world.tellStory(p.machine.name, "task %s starts", r.label)
	if l.starts > 1 {
		t.world.breakStory("launch %s starts a second time (promise 2)", r.label)
	}
	if l.end.State.Terminal() && l.end.State != api.TaskGoneByOperator { // an operator who says so can't know
		t.world.breakStory("launch %s starts after its framework was told %s", r.label, l.end.State)
	}
	for _, other := range t.order {
		if o := t.launches[other]; o != l && o.task == l.task && o.alive != nil && o.alive.alive {
			t.world.breakStory("task %s runs twice at once, as %s and as %s (R9)", l.task, other, r.label)
		}
	}
}

// noteDeath notes that the processes of a task have ended.
func (t *truth) noteDeath(r *run) {
	if r.alive {
		r.alive = false
		t.world.tellStory("truth", "task %s is dead", r.label)
	}
}

// lifeOf returns how long a task runs if nobody ends it.
func (t *truth) lifeOf(*run) time.Duration {
	switch {
	case t.short:
		return t.world.drawBetween(0, time.Second)
	case t.long:
		return 1000 * time.Hour
	}
	if t.world.random.IntN(4) == 0 {
		return t.world.drawBetween(0, 2*time.Minute)
	}
	return t.world.drawBetween(0, 15*time.Second)
}

// checkTold checks promise 3 when a user is told a status.
func (t *truth) checkTold(s *scheduler, j *job, status api.Status) {
	if j == nil {
		t.toldAgain(s, status)
		return
	}
	l := t.launches[j.label]
	switch state := status.State; state {
	case api.TaskDropped, api.TaskError:
		if l.starts > 0 {
			t.world.breakStory("launch %s has started, and its framework is told %s (%s: %s)", l.label, state, status.Reason, status.Message)
		}
	case api.TaskFinished, api.TaskFailed, api.TaskKilled, api.TaskGone:
		t.mayEndSo(l, status)
		if l.alive != nil && l.alive.alive {
			t.world.breakStory("launch %s runs, and its framework is told %s (%s: %s) (R11)", l.label, state, status.Reason, status.Message)
		}
	}
	if status.State.Settled() {
		l.end = status
	}
	t.toldParts(l, status)
	t.trueEnd(l, status)
}

// toldParts checks that the statuses of a task come in order and that none is left out, so that a user who is told
// FINISHED has been told each part of the result (promise 3).
func (t *truth) toldParts(l *launch, status api.Status) {
	l.killing = l.killing || status.State == api.TaskKilling
	if len(status.Data) == 0 || l.killing {
		return
	}
	part := int(status.Data[0])
	if part == l.parts+1 && !status.State.Terminal() {
		l.parts++
	}
	if part > l.parts && status.State == api.TaskFinished {
		t.world.breakStory("launch %s has told %d parts of its result, and its framework hears that it has FINISHED after %d", l.label, part, l.parts)
	}
}

// trueEnd checks that the end that is told is the one that the agent has taken from the executor, unless the agent
// itself is lost (promise 3).
func (t *truth) trueEnd(l *launch, status api.Status) {
	told := status.State
	if !told.Terminal() || told == api.TaskGone || told == api.TaskGoneByOperator || l.alive == nil {
		return
	}
	if really := l.alive.state; l.alive.taken && told != really && !(status.Reason == api.ReasonMaxCompletionTime && really == api.TaskKilled) {
		t.world.breakStory("launch %s ended as %s, and its framework is told %s (promise 3)", l.label, really, told)
	}
	if told == api.TaskFinished && l.alive.state != told {
		t.world.breakStory("launch %s is %s, and its framework is told that it has FINISHED", l.label, l.alive.state)
	}
}

// toldAgain checks that a scheduler that was restarted, or another instance, may be told an end again, but no other
// end. The exceptions are GONE after a reboot (R13), and DROPPED of an earlier launch of the ID, whose agent has not
// heard that its end is known. If the scheduler took that DROPPED for the end of a launch that was refused, it is
// told the refusal after it (R9).
func (t *truth) toldAgain(s *scheduler, status api.Status) {
	if !status.State.Terminal() || status.State == api.TaskError && status.Reason == api.ReasonTaskDuplicate {
		return
	}
	var last *launch
	dropped := false
	for _, label := range t.order {
		l := t.launches[label]
		if l.task == status.Task && l.abandoned && !l.end.State.Settled() {
			return // this instance has not heard yet that its framework was removed, and with it this launch
		}
		if l.task == status.Task && l.end.State.Settled() {
			dropped = dropped || l.end.State == api.TaskDropped
			last = l
		}
	}
	if dropped && status.State == api.TaskDropped {
		return
	}
	if last == nil || last.end.State == status.State || status.State == api.TaskGone || status.State == api.TaskGoneByOperator {
		return
	}
	if last.end.State == api.TaskGoneByOperator || last.end.State == api.TaskGone || last.end.State == api.TaskUnknown {
		return
	}
	t.world.breakStory("task %s was told to be %s and now %s (%s: %s) (promise 3)", status.Task, last.end.State, status.State, status.Reason, status.Message)
}

// checkRecord checks promise 1 at the agent, which knows of every end first: what is in use according to its records must
// be within what it has.
func (t *truth) checkRecord(m *machine, record agentcore.Record) {
	h := t.held[m]
	h.addRecord(record)
	launch, is := record.(agentcore.TaskLaunched)
	if !is {
		return
	}
	if launch.Term.Before(h.term) {
		t.world.breakStory("%s took a launch of term %s after one of %s (promise 4)", m.name, launch.Term, h.term)
	}
	h.term = launch.Term
	if sum := h.sum(); !m.config.Agent.Resources.Contains(sum.Firm().Plain()) {
		t.world.breakStory("%s is oversold: %v of %v (promise 1)", m.name, sum, m.config.Agent.Resources)
	}
}

// readDisk sets what is in use to what was found on the disk.
func (t *truth) readDisk(m *machine) {
	h := &holdings{
		tasks: map[api.TaskRef]api.Resources{}, executors: map[agentcore.Run]api.Resources{},
		killed: map[api.TaskRef]bool{}, removed: map[api.FrameworkID]bool{},
	}
	for _, record := range m.disk {
		h.addRecord(record)
	}
	t.held[m] = h
}

func (h *holdings) addRecord(record agentcore.Record) {
	switch r := record.(type) {
	case agentcore.TaskLaunched:
		h.tasks[api.TaskRef{Framework: r.Framework, Task: r.Task.ID}] = r.Resources
	case agentcore.TaskStatus:
		if r.Status.State.Terminal() {
			delete(h.tasks, r.Status.Ref())
		}
	case agentcore.ExecutorStarting:
		h.executors[r.Run] = r.Resources
	case agentcore.ExecutorForgotten:
		delete(h.executors, r.Run)
	case agentcore.TaskKilled:
		h.killed[r.Task] = true
	case agentcore.FrameworkRemoved:
		h.removed[r.Framework] = true
	case agentcore.FrameworkForgotten:
		delete(h.removed, r.Framework)
	default: // records that hold no resources
	}
}

func (h *holdings) sum() api.Resources {
	var sum api.Resources
	for _, resources := range h.tasks { // order: irrelevant because it is a sum
		sum = sum.Plus(resources)
	}
	for _, resources := range h.executors { // order: irrelevant because it is a sum
		sum = sum.Plus(resources)
	}
	return sum
}

// executorKilled checks promise 6: an agent ends a running task only because somebody has asked for that, or because
// its executor has not answered for a minute.
func (t *truth) executorKilled(d *daemon, e agentcore.KillGroups) {
	p := d.machine.processOf(e.Run)
	h := t.held[d.machine]
	if p == nil || p.gated || !p.greeted || p.closing || p.unwanted || h.removed[e.Run.Executor.Framework] || d.core.Identity().Gone {
		return
	}
	if p.line == nil && t.world.now.Sub(p.lost) > 50*time.Second || p.line != nil && (p.line.stream.up.mute || p.line.conn == 0) {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
		if r := p.tasks[id]; r.alive && !r.killed && !h.killed[api.TaskRef{Framework: e.Run.Executor.Framework, Task: id}] {
			t.world.breakStory("%s kills executor %s, whose task %s runs and is nobody's to end (promise 6)", d.machine.name, e.Run.Executor, r.label)
		}
	}
}

// booksHold checks promise 1 at the leader, in some of the rounds.
func (t *truth) booksHold(l *leader) {
	if t.rounds++; t.rounds%16 != 0 {
		return
	}
	t.checkBelieved(l)
	t.killsKept()
	t.checkLongest()
	if l == t.world.quorum.former { // it may not know yet that an agent has become smaller; nobody commits an accept of its offers
		return
	}
	for _, view := range view.PageOf(l.core.View(), view.AgentList, view.Query{}).Items {
		held := view.Allocated.Plus(view.Offered).Firm().Plain()
		known, is := t.world.quorum.state.Agents[view.Agent.ID]
		if own := known.Agent.Resources.Plain(); is && !t.mayBeFooled(view.Agent.ID) && !view.Offered.IsZero() && !own.Contains(held) {
			t.world.breakStory("%s is oversold by its leader: %v used, %v offered of %v (promise 1)", view.Agent.ID, view.Allocated, view.Offered, own)
		}
	}
}

// findUnsettled returns what has not come to rest, "" if everything has: every task that has not ended runs, every agent is
// back, and both sides agree (promise 7).
func (t *truth) findUnsettled() string {
	l := t.world.findLeader()
	if l == nil {
		return "nobody leads"
	}
	for _, m := range t.world.machines {
		if why := t.machineSettled(l, m); why != "" {
			return why
		}
	}
	for _, s := range t.world.schedulers {
		if why := s.user.findUnsettled(s); why != "" {
			return why
		}
	}
	shown := map[api.TaskRef]view.Task{}
	for _, view := range all(l.core.View(), view.TaskList) {
		shown[api.TaskRef{Framework: view.Framework, Task: view.Task.ID}] = view
		if !t.isClaimed(view.Framework) {
			continue // nobody can acknowledge anything until its failover time is over
		}
		switch view.Status.State {
		case api.TaskRunning:
		case api.TaskUnreachable:
			if !t.mayBeAway(view.Agent) {
				return fmt.Sprintf("the leader shows %s/%s as UNREACHABLE", view.Framework, view.Task.ID)
			}
		default:
			return fmt.Sprintf("the leader shows %s/%s as %s", view.Framework, view.Task.ID, view.Status.State)
		}
	}
	for _, label := range t.order {
		if why := t.launchSettled(t.launches[label], shown); why != "" {
			return why
		}
	}
	for _, s := range t.world.schedulers {
		if why := t.schedulerSettled(l, s); why != "" {
			return why
		}
	}
	return t.verifyCluster(l)
}

// isClaimed reports whether a scheduler continues the framework.
func (t *truth) isClaimed(id api.FrameworkID) bool {
	return slices.ContainsFunc(t.world.schedulers, func(s *scheduler) bool { return s.phase == active && s.info.ID == id })
}

func (t *truth) mayBeAway(id api.AgentID) bool {
	for _, m := range t.world.machines {
		if m.daemon != nil && m.daemon.core.Identity().Agent == id {
			return m.isolated || m.twin
		}
	}
	return true // no machine has this agent any more
}

func (t *truth) machineSettled(l *leader, m *machine) string {
	if m.twin || m.isolated {
		return ""
	}
	if m.daemon == nil {
		return "the agent on " + m.name + " does not run"
	}
	id := m.daemon.core.Identity().Agent
	for _, view := range view.PageOf(l.core.View(), view.AgentList, view.Query{Agent: id}).Items {
		if view.Agent.ID == id && id != "" {
			switch {
			case view.Marks != 0:
				return fmt.Sprintf("agent %s on %s is still %v", id, m.name, view.Marks.Strings())
			case view.State == api.AgentRunning || view.State == api.AgentBusy:
				return t.volumesSettled(m)
			}
			return fmt.Sprintf("agent %s on %s is %s: %s", id, m.name, view.State, view.Why)
		}
	}
	return fmt.Sprintf("the agent on %s (%q) has no session", m.name, id)
}

func (t *truth) launchSettled(l *launch, shown map[api.TaskRef]view.Task) string {
	runs := l.alive != nil && l.alive.alive
	view, known := shown[api.TaskRef{Framework: l.framework, Task: l.task}]
	known = known && view.Task.Labels[labelOfTry] == l.label
	switch {
	case l.abandoned && runs:
		return fmt.Sprintf("launch %s runs, though its framework was removed", l.label)
	case l.abandoned:
	case runs && !known && !l.machine.isolated:
		return fmt.Sprintf("launch %s runs on %s, and the leader does not know it", l.label, l.machine.name)
	case runs && l.end.State == api.TaskGoneByOperator && t.world.quorum.restored: // the mark was lost
	case runs && l.end.State.Terminal() && !l.machine.isolated:
		return fmt.Sprintf("launch %s runs on %s, and its framework was told %s", l.label, l.machine.name, l.end.State)
	case !runs && known && view.Status.State != api.TaskUnreachable && t.isClaimed(l.framework):
		return fmt.Sprintf("launch %s does not run, and the leader shows it as %s", l.label, view.Status.State)
	}
	return ""
}

func (t *truth) schedulerSettled(l *leader, s *scheduler) string {
	if !s.up {
		return ""
	}
	if s.phase != active {
		if s.phase == standing && s.info.Standby {
			return ""
		}
		return fmt.Sprintf("scheduler %s has no session", s.name)
	}
	for _, label := range t.order {
		launched := t.launches[label]
		j := s.work.tasks[launched.task]
		if j == nil || j.label != label {
			continue
		}
		if runs := launched.alive != nil && launched.alive.alive; !runs && j.state != api.TaskUnreachable {
			return fmt.Sprintf("launch %s does not run, and %s believes that it is %s", label, s.name, j.state)
		}
		if j.state != api.TaskRunning && j.state != api.TaskUnreachable {
			return fmt.Sprintf("launch %s runs, and %s believes that it is %s", label, s.name, j.state)
		}
	}
	return t.demandSettled(l, s)
}

// demandSettled checks that the demand that the leader shows is what the framework wants.
func (t *truth) demandSettled(l *leader, s *scheduler) string {
	for _, view := range view.PageOf(l.core.View(), view.FrameworkList, view.Query{Framework: s.info.ID}).Items {
		if view.Framework.ID != s.info.ID || !s.work.stated {
			continue
		}
		shown := int64(0)
		for _, demand := range view.Demand {
			for _, shape := range demand.Shapes {
				shown += shape.Count
			}
		}
		want := int64(s.work.todo)
		if s.work.resting && s.user == user(s.work) {
			want = 0
		}
		if shown != want {
			return fmt.Sprintf("the leader shows that %s wants %d more, it wants %d", s.name, shown, want)
		}
	}
	return ""
}

// findLeft returns what is left after everything has ended, "" if nothing is.
func (t *truth) findLeft() string {
	l := t.world.findLeader()
	if l == nil {
		return "nobody leads"
	}
	for _, view := range view.PageOf(l.core.View(), view.AgentList, view.Query{}).Items {
		if !view.Allocated.IsZero() && !t.mayBeAway(view.Agent.ID) {
			return fmt.Sprintf("on agent %s %v are in use (promise 1)", view.Agent.ID, view.Allocated)
		}
	}
	for _, m := range t.world.machines {
		for _, p := range m.processes {
			if !p.dead && !m.isolated && !m.twin {
				return fmt.Sprintf("executor %s still runs on %s", p.run.Executor, m.name)
			}
		}
		if d := m.daemon; d != nil && !m.isolated && !m.twin {
			if counts := d.core.Counts(); counts.Tasks+counts.Executors > 0 {
				return fmt.Sprintf("the agent on %s has %d tasks and %d executors", m.name, counts.Tasks, counts.Executors)
			}
		}
	}
	for _, label := range t.order {
		if launched := t.launches[label]; launched.alive != nil && launched.alive.alive && !launched.machine.isolated && !launched.machine.twin {
			return fmt.Sprintf("launch %s still runs", label)
		}
	}
	return ""
}
