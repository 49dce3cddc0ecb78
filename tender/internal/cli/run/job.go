package run

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/pack"
	"github.com/tenderhq/tender/internal/work"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// session is what the job needs from the SDK.
type session interface {
	FrameworkID() api.FrameworkID
	Demand(demand api.Demand) error
	Kill(task api.TaskID, options ...framework.KillOption) error
	Teardown() error
}

// job is the scheduler. The SDK calls it from one goroutine, and the runner from another. It keeps the instances that
// run, and only counts the others: a hundred thousand instances take no more memory than those that run at the same
// time.
type job struct {
	config Config
	follow func(*attempt)
	own    context.Context //nolint:containedctx // ends with the run
	over   chan struct{}   // closed when every instance is over
	away   chan struct{}   // closed when a run that detaches may leave

	mu       sync.Mutex
	client   session     // nil before the first session
	fresh    int         // instances from this number on were never launched
	again    []*instance // instances that wait for another attempt
	live     map[api.TaskID]*attempt
	done     int // how many instances are over
	failed   int // how many of these have a code other than 0
	first    int // the number of the first of these
	exit     int // its code
	behind   int // how many attempts have ended whose output was not copied completely
	killing  bool
	launched time.Time // the last launch, or the first session, or the start, or when something began to wait after that
}

const (
	// restMin is how long a dropped task rests before the next attempt; each further pause is twice as long.
	restMin = 200 * time.Millisecond
	// answerTasksMax is how many tasks go into one answer: about as many as an agent starts within restMin. What has room for
	// more is declined for that time, or until a task of the run ends there. So of many tasks each agent gets as many as it
	// is fast, instead of all of them going to the first that has room.
	answerTasksMax = 128
	// behindMax is how many ended tasks may have output that is not copied yet; beyond it no others start. Their output
	// would be kept here, and an agent keeps only so many folders.
	behindMax = 500
)

// backoff says how long an instance rests before its next attempt.
var backoff = work.Backoff{First: restMin, Max: 5 * time.Second}

func newJob(own context.Context, config Config, follow func(*attempt)) *job {
	return &job{
		config: config, follow: follow, own: own, over: make(chan struct{}), away: make(chan struct{}), live: map[api.TaskID]*attempt{}, launched: time.Now(),
	}
}

// Subscribed is called at the start of each session.
func (j *job) Subscribed(_ context.Context, client *framework.Client) error {
	j.begin(client)
	return nil
}

func (j *job) begin(client session) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.client == nil {
		j.client, j.launched = client, time.Now()
	}
	j.demand()
}

// waiting returns how many instances wait for an offer. Callers hold mu.
func (j *job) waiting() int {
	if j.killing {
		return 0
	}
	return j.config.Instances - j.fresh + len(j.again)
}

// tryAgain makes an instance wait for another attempt. Callers hold mu.
func (j *job) tryAgain(i *instance) {
	if j.waiting() == 0 {
		j.launched = time.Now()
	}
	j.again = append(j.again, i)
}

// waits says whether an instance waits for another attempt. Callers hold mu.
func (j *job) waits(i *instance) bool { return slices.Contains(j.again, i) }

// waitNoMore notes that an instance needs no other attempt. Callers hold mu.
func (j *job) waitNoMore(i *instance) {
	if j.waits(i) {
		j.again = slices.DeleteFunc(j.again, func(other *instance) bool { return other == i })
		j.demand()
	}
}

// demand tells what still waits, so that offers fit it. An allocator without demands makes plain offers.
func (j *job) demand() {
	if j.client == nil {
		return
	}
	demand := api.Demand{Role: j.config.Role}
	if n := j.waiting(); n > 0 {
		shape := api.Shape{
			Resources: pack.Ask(j.config.Task), Count: int64(n), Constraint: j.config.Constraint,
			Preferred: j.config.Preferred, Group: j.config.Task.Group,
		}
		if j.config.Spread != "" {
			shape.Spread = []api.Spread{{By: j.config.Spread}}
		}
		demand.Shapes = []api.Shape{shape}
	}
	// A demand only makes offers fit better; without it they are answered just as well.
	_ = j.client.Demand(demand)
}

// Offers fills each offer with as many waiting instances as fit.
func (j *job) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	j.mu.Lock()
	defer j.mu.Unlock()
	answers := make([]api.Answer, 0, len(offers))
	now := time.Now()
	for _, offer := range offers {
		answers = append(answers, j.answer(offer, now))
	}
	j.demand()
	return answers
}

// answer sets no filter while something waits, unless it is the turn of another agent: what an offer has besides its tasks
// is for the next ones.
func (j *job) answer(offer api.Offer, now time.Time) api.Answer {
	if j.waiting() == 0 {
		return api.Decline(offer, 0)
	}
	if j.behind > behindMax {
		return api.Decline(offer, restMin)
	}
	bin := &pack.Bin{Offer: offer, Left: offer.Resources.UsableBy(offer.Role)}
	resting := false
	for len(bin.Tasks) < answerTasksMax && bin.Fits(j.config.Task) {
		i := j.next(offer.Agent, now)
		if i == nil {
			resting = len(j.again) > 0
			break
		}
		bin.Put(j.launch(i, offer.Agent, now)) // it fits, because all of them ask for the same
	}
	switch {
	case len(bin.Tasks) > 0:
		answer := api.Launch(offer, bin.Tasks...)
		if answer.Filter = api.NoFilter; len(bin.Tasks) == answerTasksMax {
			answer.Filter = api.Filter{Refuse: restMin}
		}
		return answer
	case resting:
		return api.Decline(offer, restMin)
	}
	return api.Decline(offer, 0)
}

// next returns the instance to launch next: one that has rested, or a new one. Callers hold mu.
func (j *job) next(agent api.AgentID, now time.Time) *instance {
	for n, i := range j.again {
		avoids := i.Avoids == agent && i.rest.Add(backoff.AvoidFor()).After(now)
		// The agent of the other attempt is silent, so an offer of that agent is not used.
		if !avoids && !i.rest.After(now) && !slices.ContainsFunc(i.Attempts, func(a *attempt) bool { return a.Agent == agent }) {
			j.again = slices.Delete(j.again, n, n+1)
			return i
		}
	}
	if j.fresh == j.config.Instances {
		return nil
	}
	j.fresh++
	return &instance{index: j.fresh - 1}
}

// Update is called for each step in a task's life.
func (j *job) Update(_ context.Context, status api.Status) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	a := j.live[status.Task]
	if a == nil {
		return nil // it has ended
	}
	silent := !a.Silent.IsZero()
	a.Hear(status, false, time.Now())
	a.Agent = cmp.Or(status.Agent, a.Agent)
	j.tellPorts(a, status)
	defer j.detachIfPlaced()
	j.startFollowing(a)
	switch {
	case status.State.Settled():
		j.ended(a, status)
	case a.Silent.IsZero() && silent:
		j.back(a)
	case !a.Silent.IsZero() && !silent && !a.unwanted():
		j.config.Say("%s: agent %s is silent; waiting for it to come back", a.Task, a.Agent)
	}
	return nil
}

// startFollowing begins to copy the output when there may be some: the agent prepares the task, or had it.
func (j *job) startFollowing(a *attempt) {
	never := []api.TaskState{api.TaskStaging, api.TaskError, api.TaskDropped, api.TaskUnknown}
	if a.output != unasked || a.Agent == "" || a.unwanted() || slices.Contains(never, a.State) {
		return
	}
	a.output = coming
	j.follow(a)
}

// followedToItsEnd notes that the output of an attempt was copied.
func (j *job) followedToItsEnd(a *attempt) {
	a.drop()
	j.mu.Lock()
	defer j.mu.Unlock()
	if a.output == behind {
		j.behind--
	}
	a.output = here
}

// ended handles an attempt's terminal status: the instance is over, or is tried again.
func (j *job) ended(a *attempt, status api.Status) {
	i := a.of
	end := i.End(a, status, time.Now(), work.Rules{Service: j.config.Restart < 0, Backoff: backoff})
	j.end(a, status.Output)
	again := status.State == api.TaskDropped || j.config.Retry && end.Verdict == work.Lost && !askedFor(status)
	restart := !again && j.restarts(i, status)
	again = again || restart
	switch {
	case i.over || a.unwanted():
	case again && (i.Held() || j.waits(i)): // the other attempt goes on
	case again && !j.killing:
		if restart {
			i.restarts++
			j.config.Say("%s ended %s; starting it again", a.Task, why(status))
		} else {
			j.config.Say("%s was not to be (%s); trying again", a.Task, why(status))
		}
		i.rest = time.Now().Add(backoff.After(i.Row, false, a.Task))
		j.tryAgain(i)
		j.demand()
	default:
		j.waitNoMore(i)
		j.finish(i, codeOf(status))
		j.tell(a, status)
		for _, other := range slices.Clone(i.Attempts) {
			j.dismiss(other)
		}
	}
}

// restarts says whether an instance is started again because of how its program ended. A task that somebody has killed
// stays ended.
func (j *job) restarts(i *instance, status api.Status) bool {
	switch {
	case askedFor(status) || i.over || j.killing:
		return false
	case j.config.Restart < 0:
		return status.State == api.TaskFinished || status.State == api.TaskFailed
	}
	return status.State == api.TaskFailed && i.restarts < j.config.Restart
}

// tellPorts tells where a task can be reached, once it runs.
func (j *job) tellPorts(a *attempt, status api.Status) {
	if a.reached != "" || status.State != api.TaskRunning || len(status.Ports) == 0 {
		return
	}
	var places []string
	for _, name := range slices.Sorted(maps.Keys(status.Ports)) {
		places = append(places, name+" at "+net.JoinHostPort(status.Hostname, strconv.Itoa(int(status.Ports[name]))))
	}
	a.reached = strings.Join(places, ", ")
	j.config.Say("%s has %s", a.Task, a.reached)
}

// askedFor says whether the person who runs the task, or an operator, has asked for its end.
func askedFor(status api.Status) bool {
	return status.Reason == api.ReasonKilledByOperator || status.Reason == api.ReasonKilledByFramework
}

// finish ends an instance, and with the last one the run. Callers hold mu.
func (j *job) finish(i *instance, code int) {
	i.over = true
	j.done++
	j.note(i.index, code)
	j.closeIfOver()
}

// note keeps the code of the first instance that failed. Callers hold mu.
func (j *job) note(index, code int) {
	if code == 0 {
		return
	}
	if j.failed == 0 || index < j.first {
		j.first, j.exit = index, code
	}
	j.failed++
}

func (j *job) closeIfOver() {
	if j.done < j.config.Instances {
		return
	}
	select {
	case <-j.over:
	default:
		close(j.over)
	}
}

// tell reports how an instance ended, if output and exit code do not show it.
func (j *job) tell(a *attempt, status api.Status) {
	switch {
	case isPlain(status) && (j.config.Instances == 1 || codeOf(status) == 0):
	case j.killing && status.State == api.TaskKilled:
	default:
		j.config.Warn("%s ended %s", a.Task, why(status))
	}
}

// isPlain says whether the exit code of a task says everything about its end.
func isPlain(status api.Status) bool {
	exited := status.State == api.TaskFinished || status.State == api.TaskFailed && status.ExitCode != nil
	return exited && status.Reason == api.ReasonNone
}

// why returns a terminal status in words: "FAILED: MEMORY_LIMIT: it used …".
func why(status api.Status) string {
	parts := []string{status.State.String()}
	if status.Reason != api.ReasonNone {
		parts = append(parts, status.Reason.String())
	}
	if status.ExitCode != nil && *status.ExitCode != 0 {
		parts = append(parts, fmt.Sprintf("exit code %d", *status.ExitCode))
	}
	message := status.Message
	if status.ExitCode != nil {
		message = show.BesideCode(message, *status.ExitCode)
	}
	if message != "" {
		parts = append(parts, message)
	}
	return strings.Join(parts, ": ")
}

// codeOf returns what an instance contributes to the run's exit code.
func codeOf(status api.Status) int {
	switch {
	case status.ExitCode != nil && *status.ExitCode != 0:
		return *status.ExitCode & 0xff
	case status.State == api.TaskFinished:
		return 0
	}
	return 1
}

// killAll ends every instance: those that wait at once, the others by a kill. It returns how many are waited for.
func (j *job) killAll() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.killing = true
	for _, i := range j.again {
		if len(i.Attempts) == 0 {
			j.finish(i, 1)
		}
	}
	j.again = nil
	if never := j.config.Instances - j.fresh; never > 0 {
		j.note(j.fresh, 1)
		j.done += never
		j.fresh = j.config.Instances
	}
	j.demand()
	awaited := 0
	for _, id := range sortedIDs(j.live) {
		if a := j.live[id]; !a.unwanted() {
			awaited++
		}
		// The SDK repeats the kill until the task has ended. It refuses only a task that it never launched.
		_ = j.client.Kill(id)
	}
	j.closeIfOver()
	return awaited
}

func (j *job) code() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.exit
}

func (j *job) allOver() bool {
	select {
	case <-j.over:
		return true
	default:
		return false
	}
}

// ref returns the reference of a task of this run.
func (j *job) ref(id api.TaskID) api.TaskRef {
	return api.TaskRef{Framework: j.client.FrameworkID(), Task: id}
}

// subscribed says whether there was a session.
func (j *job) subscribed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.client != nil
}

// idle returns how long nothing was launched while something waits for an offer; 0 if nothing does. An instance that rests,
// or leaves an agent where it has failed, declines what it is offered, so that the masters can't say why it waits.
func (j *job) idle(now time.Time) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.waiting() == 0 {
		return 0
	}
	since := j.launched
	if j.fresh == j.config.Instances {
		if first := slices.MinFunc(j.again, func(a, b *instance) int { return a.takesAny().Compare(b.takesAny()) }).takesAny(); first.After(since) {
			since = first
		}
	}
	return max(0, now.Sub(since))
}

// counts returns how many instances are over, how many of these failed, and how many tasks run.
func (j *job) counts() (done, failed, running int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.done, j.failed, len(j.live)
}
