package frameworktest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/testing/chaos"
)

// journal records what really happened, at both ends: what schedulers asked for and were told, and what ran where. It
// checks the cluster's promises (architecture.md, section 6) against that. It does not use what masters and agents
// believe.
type journal struct {
	mu         sync.Mutex
	lives      map[api.TaskRef]*life
	deaf       map[api.FrameworkID]bool // frameworks without a scheduler, which can't be told anything
	crashed    map[api.AgentID]bool     // agents of which an executor was killed
	violations []string
	suspects   []api.TaskRef // tasks with which some of the violations have to do
	mistakes   []string      // mistakes of schedulers, which explain what else is wrong
	failed     func()        // called at the first violation
}

// life is one task as both ends saw it.
type life struct {
	ref    api.TaskRef
	asked  []asked
	starts []start
	told   []told
	play   *Play // what the last start plays
	// excused says why the task need not end as its script says: it was killed, or its host went down.
	excused string
	state   api.TaskState // as the scheduler knows it
	end     api.TaskState // the first terminal state that it was told
	why     api.Reason    // reason of that state
	by      api.AgentID
	// gone says that the agent was marked gone on which it runs. A leader to which that agent never came says UNKNOWN.
	gone bool
	// forgotten says that the scheduler was killed before it knew more of the task than its own wish.
	forgotten bool
	// twice says that a scheduler has used the ID for two tasks, so nothing can be concluded about the cluster.
	twice bool
}

type asked struct {
	at    time.Time
	agent api.AgentID
}

type start struct {
	at    time.Time
	host  string
	ended time.Time // zero: it still runs
}

type told struct {
	at     time.Time
	status api.Status
	err    error // the scheduler's answer
}

// violationsMax bounds how many violations of a broken run are printed; the first are the interesting ones.
const violationsMax = 20

func newJournal() *journal {
	return &journal{
		lives: make(map[api.TaskRef]*life), deaf: make(map[api.FrameworkID]bool), crashed: make(map[api.AgentID]bool),
	}
}

// noteScheduler notes that a framework has a scheduler, or no longer has one.
func (j *journal) noteScheduler(id api.FrameworkID, hears bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.deaf[id] = !hears
}

func (j *journal) lifeOf(ref api.TaskRef) *life {
	l := j.lives[ref]
	if l == nil {
		l = &life{ref: ref, state: api.TaskStaging}
		j.lives[ref] = l
	}
	return l
}

// noteBroken records a broken promise.
func (j *journal) noteBroken(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.recordBroken(format, args...)
}

// recordBroken does so for a caller that holds the lock.
func (j *journal) recordBroken(format string, args ...any) {
	if len(j.violations) == 0 && j.failed != nil {
		j.failed()
	}
	if len(j.violations) < violationsMax {
		j.violations = append(j.violations, time.Now().UTC().Format(clockFormat)+" "+fmt.Sprintf(format, args...))
	}
}

// brokenBy records a promise that was broken for a task. The caller holds the lock.
func (j *journal) brokenBy(ref api.TaskRef, format string, args ...any) {
	if j.lifeOf(ref).twice {
		return
	}
	j.recordBroken(ref.String()+" "+format, args...)
	if len(j.suspects) < violationsMax && !slices.Contains(j.suspects, ref) {
		j.suspects = append(j.suspects, ref)
	}
}

// noteLaunches records the launches in a scheduler's answers.
func (j *journal) noteLaunches(offers []api.Offer, answers []api.Answer) {
	byID := make(map[api.OfferID]api.Offer, len(offers))
	for _, offer := range offers {
		byID[offer.ID] = offer
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, answer := range answers {
		if len(answer.Offers) == 0 || answer.Keep {
			continue
		}
		offer, ok := byID[answer.Offers[0]]
		if !ok {
			continue // the SDK refuses the answer, and tells the end of its tasks
		}
		for _, operation := range answer.Operations {
			for _, task := range operation.Tasks {
				l := j.lifeOf(api.TaskRef{Framework: offer.Framework, Task: task.ID})
				j.noteReuse(l, offer.Agent)
				l.asked = append(l.asked, asked{time.Now(), offer.Agent})
			}
		}
	}
}

// noteReuse records the mistake of a scheduler that launches a task under an ID that it has used before. An ID may be
// used again if its task was DROPPED or never sent. The caller holds the lock.
func (j *journal) noteReuse(l *life, agent api.AgentID) {
	switch {
	case len(l.asked) == 0 || l.twice || l.forgotten && len(l.starts)+len(l.told) == 0:
		return
	case l.end == api.TaskDropped:
		l.end, l.state = api.TaskUnspecified, api.TaskStaging
		return
	}
	l.twice = true
	last := l.asked[len(l.asked)-1]
	if j.failed != nil {
		j.failed()
	}
	if len(j.mistakes) < violationsMax {
		j.mistakes = append(j.mistakes, fmt.Sprintf("%s %s is launched on %s, and was launched at %s on %s (now %s); each attempt needs an ID of its own",
			time.Now().UTC().Format(clockFormat), l.ref, agent, last.at.UTC().Format(clockFormat), last.agent, l.state))
	}
}

// noteStatus records a status and the scheduler's answer. first says that this process of the scheduler hears of the
// task for the first time: it is told again what the process before it did not acknowledge.
func (j *journal) noteStatus(status api.Status, err error, first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lifeOf(status.Ref())
	l.told = append(l.told, told{time.Now(), status, err})
	if status.State == api.TaskUnknown { // an answer, not a state
		if l.gone && l.end == api.TaskUnspecified {
			l.end = api.TaskUnknown
		}
		return
	}
	if status.State != l.end {
		l.mayBeAgain()
	}
	switch {
	case l.end != api.TaskUnspecified && l.end != api.TaskUnknown && status.State.Terminal() && status.State != l.end && status.Reason != api.ReasonAgentRebooted:
		// R13 allows a second end only with the reason AGENT_REBOOTED.
		j.brokenBy(l.ref, "ended %s and is then told %s (promise 3)", l.end, status.State)
	case !first && !mayFollow(l.state, status.State):
		j.brokenBy(l.ref, "was %s and is then told %s (promise 3)", l.state, status.State)
	}
	l.state = status.State
	if status.State.Terminal() && l.end == api.TaskUnspecified {
		l.end, l.why, l.by = status.State, status.Reason, status.Agent
	}
	if status.State == api.TaskDropped && len(l.starts) > 0 {
		j.brokenBy(l.ref, "started on %s and is told DROPPED, which means that it never did", l.starts[0].host)
	}
}

// mayBeAgain takes news of a task that was DROPPED for news of a further launch under its ID, if it was the Client that
// has launched the task: what is asked of the Client is not seen here.
func (l *life) mayBeAgain() {
	if l.end == api.TaskDropped && len(l.asked) == 0 {
		l.end, l.state = api.TaskUnspecified, api.TaskStaging
	}
}

// noteStart records that a task has begun to run.
func (j *journal) noteStart(host string, ref api.TaskRef, play *Play) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lifeOf(ref)
	if len(l.starts) > 0 {
		j.brokenBy(ref, "starts on %s, having started on %s before (promise 2)", host, l.starts[0].host)
	}
	l.mayBeAgain()
	if l.end != api.TaskUnspecified {
		j.brokenBy(ref, "starts on %s, having ended %s before (promise 2)", host, l.end)
	}
	l.starts = append(l.starts, start{at: time.Now(), host: host})
	l.play = play
}

// notePlay records that a task now follows another play.
func (j *journal) notePlay(ref api.TaskRef, play *Play) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lifeOf(ref).play = play
	if play.Crash {
		j.lifeOf(ref).excused = "the story crashed its executor"
	}
}

// noteEnd records that a task no longer runs.
func (j *journal) noteEnd(host string, ref api.TaskRef) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lifeOf(ref)
	for i := range l.starts {
		if l.starts[i].host == host && l.starts[i].ended.IsZero() {
			l.starts[i].ended = time.Now()
		}
	}
}

// runningOn returns the tasks that run on the host.
func (j *journal) runningOn(host string) []api.TaskRef {
	j.mu.Lock()
	defer j.mu.Unlock()
	var list []api.TaskRef
	for ref, l := range j.lives {
		if slices.ContainsFunc(l.starts, func(s start) bool { return s.host == host && s.ended.IsZero() }) {
			list = append(list, ref)
		}
	}
	slices.SortFunc(list, api.TaskRef.Compare)
	return list
}

// unsettledTasks returns the tasks that were launched and whose end the scheduler does not know, and those that still
// run.
func (j *journal) unsettledTasks() []api.TaskRef {
	j.mu.Lock()
	defer j.mu.Unlock()
	var list []api.TaskRef
	for ref, l := range j.lives {
		lost := l.forgotten && len(l.starts) == 0 || j.deaf[ref.Framework]
		runs := slices.ContainsFunc(l.starts, func(s start) bool { return s.ended.IsZero() })
		if runs || l.end == api.TaskUnspecified && len(l.asked) > 0 && !lost {
			list = append(list, ref)
		}
	}
	slices.SortFunc(list, api.TaskRef.Compare)
	return list
}

// excuseEnd records why a task may end in another way than its script says.
func (j *journal) excuseEnd(ref api.TaskRef, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lifeOf(ref)
	l.excused = cmp.Or(l.excused, why)
}

// excuseHost excuses the tasks that have not ended and that ran on the host, or were on their way there, when the host
// or one of its executors goes down. of limits this to one framework.
func (j *journal) excuseHost(host string, agent api.AgentID, of api.FrameworkID, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for ref, l := range j.lives { // order: irrelevant because each is marked by itself
		ran := slices.ContainsFunc(l.starts, func(s start) bool { return s.host == host })
		sent := slices.ContainsFunc(l.asked, func(a asked) bool { return a.agent == agent })
		if (ran || sent) && l.end == api.TaskUnspecified && (of == "" || of == ref.Framework) {
			l.excused = cmp.Or(l.excused, why)
		}
	}
}

// markedGone records that an agent is marked gone, and its tasks with it.
func (j *journal) markedGone(a *Agent, id api.AgentID) {
	j.excuseHost(a.host.name, id, "", a.host.name+" was marked gone")
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.lives { // order: irrelevant because each is marked by itself
		l.gone = l.gone || slices.ContainsFunc(l.asked, func(a asked) bool { return a.agent == id })
	}
}

// noteCrash records that an executor of the agent was killed: its tasks, started or not, may be FAILED.
func (j *journal) noteCrash(agent api.AgentID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.crashed[agent] = true
}

// forgetScheduler records that a framework's scheduler is killed. What it wished for may never have been sent, and its
// successor need not hear of tasks that ended without ever starting.
func (j *journal) forgetScheduler(id api.FrameworkID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for ref, l := range j.lives { // order: irrelevant because each is marked by itself
		if ref.Framework == id && l.end == api.TaskUnspecified {
			l.forgotten = true
		}
	}
}

// settlePromises records what is wrong at the end, when everything had the time to come to rest: every task that was
// asked for must have ended as its script says.
func (j *journal) settlePromises() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, ref := range slices.SortedFunc(maps.Keys(j.lives), api.TaskRef.Compare) {
		l := j.lives[ref]
		if len(l.starts) == 0 && (l.why == api.ReasonExecutorTerminated || l.why == api.ReasonAgentFailed) && j.crashed[l.by] {
			continue
		}
		if j.deaf[ref.Framework] && l.end == api.TaskUnspecified {
			continue
		}
		if wrong := l.wrong(); wrong != "" {
			j.brokenBy(ref, "%s (promises 3 and 6)", wrong)
		}
	}
}

// wrong returns what is wrong with the task's end, by the same rules as for real clusters (package chaos). It handles
// here what these rules do not know: a scheduler that was killed and forgotten with its wishes.
func (l *life) wrong() string {
	ends := l.end != api.TaskUnspecified
	if !ends && (len(l.asked) == 0 || l.forgotten) && len(l.starts) == 0 {
		return ""
	}
	seen := chaos.Life{
		Launched: true, Starts: min(len(l.starts), 1), // other starts are recorded when they happen
		Right: l.right(), Excused: l.excused != "" || l.wanted(),
		Runs: slices.ContainsFunc(l.starts, func(s start) bool { return s.ended.IsZero() }),
	}
	if ends {
		seen.Ends = []string{l.end.String()}
	}
	wrong := seen.Wrong()
	if wrong != "" {
		wrong += fmt.Sprintf(" (last state %s, %s)", l.state, l.why)
	}
	return wrong
}

// right returns the ends that the script allows. A task that never started may end FINISHED or FAILED.
func (l *life) right() []string {
	switch {
	case l.play == nil:
		return []string{api.TaskFinished.String(), api.TaskFailed.String()}
	case l.play.Crash:
		return []string{api.TaskFailed.String(), api.TaskGone.String()} // it ends with its executor
	case l.play.Forever:
		return nil
	}
	end, _ := l.play.outcome()
	return []string{end.String()}
}

// wanted reports whether the task was killed because somebody asked for that.
func (l *life) wanted() bool {
	switch l.why {
	case api.ReasonKilledByFramework, api.ReasonKilledByOperator, api.ReasonPreempted, api.ReasonRevoked,
		api.ReasonAgentDraining, api.ReasonFrameworkRemoved:
		return l.end == api.TaskKilled
	}
	return false
}

// summarizeLives counts what was seen, so that a test that tested nothing is noticed.
func (j *journal) summarizeLives() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	starts, statuses, excused, forgotten := 0, 0, 0, 0
	ends := make(map[api.TaskState]int)
	for _, l := range j.lives { // order: irrelevant because they are counted
		starts += len(l.starts)
		statuses += len(l.told)
		ends[l.end]++
		if l.excused != "" {
			excused++
		}
		if l.forgotten && l.end == api.TaskUnspecified {
			forgotten++
		}
	}
	out := fmt.Sprintf("%d tasks, %d started, %d statuses, %d excused, %d forgotten with their scheduler; ends:",
		len(j.lives), starts, statuses, excused, forgotten)
	for _, state := range slices.Sorted(maps.Keys(ends)) {
		out += fmt.Sprintf(" %s %d", state, ends[state])
	}
	return out
}

// storyOf lists what is known of a task, in order of time.
func (j *journal) storyOf(ref api.TaskRef) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lives[ref]
	if l == nil {
		return ref.String() + ": never heard of\n"
	}
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	for _, a := range l.asked {
		lines = append(lines, line{a.at, "asked for on " + string(a.agent)})
	}
	for _, s := range l.starts {
		lines = append(lines, line{s.at, "starts on " + s.host})
		if !s.ended.IsZero() {
			lines = append(lines, line{s.ended, "ends on " + s.host})
		}
	}
	for _, t := range l.told {
		lines = append(lines, line{t.at, describe(t)})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	var out strings.Builder
	fmt.Fprintf(&out, "%s:\n", ref)
	for _, l := range lines {
		fmt.Fprintf(&out, "  %s %s\n", l.at.UTC().Format(clockFormat), l.text)
	}
	return out.String()
}

func describe(t told) string {
	s := t.status
	text := fmt.Sprintf("told %s #%d by %s at %s %s %s", s.State, s.Number, s.Source, s.Agent, s.Reason, s.Message)
	if t.err != nil {
		text += "; refused: " + t.err.Error()
	}
	return strings.TrimRight(text, " ")
}

// clockFormat shows virtual time; every story begins at 00:00:00.
const clockFormat = "15:04:05.000"

// mayFollow reports whether a scheduler that knows a task in one state may next be told the other: by one move of the
// table, or by several, because after a lost session it is told only the latest state.
func mayFollow(from, to api.TaskState) bool {
	if from == to {
		return true
	}
	seen := map[api.TaskState]bool{from: true}
	for queue := []api.TaskState{from}; len(queue) > 0; queue = queue[1:] {
		if queue[0] == api.TaskUnreachable && from != api.TaskUnreachable {
			continue // UNREACHABLE leads to every state, but must itself have been told
		}
		for next := api.TaskStaging; next <= api.TaskUnknown; next++ {
			if !seen[next] && api.MayMove(queue[0], next, api.MoverMaster|api.MoverAgent|api.MoverExecutor) {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return seen[to]
}
