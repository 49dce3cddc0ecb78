package run

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
)

// phase of an instance.
type phase int

const (
	phaseWaiting  phase = iota // for an offer
	phaseLaunched              // in an accept that was sent
	phaseOver
)

// instance is one of the copies that were asked for; a dropped task is tried again under a new ID.
type instance struct {
	index    int
	attempt  int
	id       api.TaskID
	phase    phase
	state    api.TaskState
	agent    api.AgentID
	followed bool          // its output is being brought here
	ended    chan struct{} // of this attempt: closed at its terminal status
	rest     time.Time     // not launched again before
	code     int           // phaseOver
}

// session is what the job asks of the SDK.
type session interface {
	FrameworkID() api.FrameworkID
	Demand(demand api.Demand) error
	Kill(task api.TaskID) error
}

// job is the scheduler. The SDK calls it from one goroutine, the runner from another.
type job struct {
	config Config
	follow func(*instance)
	own    context.Context // ends with the run
	over   chan struct{}   // closed when every instance is over

	mu        sync.Mutex
	client    session // nil before the first session
	instances []*instance
	byID      map[api.TaskID]*instance // current attempts
	killing   bool
	launched  time.Time // the last launch, or the first session, or the start
}

const (
	// restMin is how long a dropped task rests before the next attempt; each time twice as long.
	restMin = 200 * time.Millisecond
	restMax = 5 * time.Second
	// idleFilter keeps offers away that nobody waits for.
	idleFilter = time.Hour
)

func newJob(config Config, follow func(*instance)) *job {
	j := &job{config: config, follow: follow, over: make(chan struct{}), byID: map[api.TaskID]*instance{}, launched: time.Now()}
	for index := range config.Instances {
		i := &instance{index: index}
		j.instances = append(j.instances, i)
		j.enter(i)
	}
	return j
}

// enter makes an instance wait under a fresh ID.
func (j *job) enter(i *instance) {
	delete(j.byID, i.id)
	i.id = api.TaskID(fmt.Sprintf("%s.%d", j.config.Name, i.index))
	if i.attempt > 0 {
		i.id += api.TaskID(fmt.Sprintf(".again%d", i.attempt))
	}
	i.phase, i.state, i.agent, i.followed, i.ended = phaseWaiting, api.TaskUnspecified, "", false, make(chan struct{})
	j.byID[i.id] = i
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

// demand says what still waits, so that offers fit it. An allocator that knows no demand makes plain offers.
func (j *job) demand() {
	if j.client == nil {
		return
	}
	demand := api.Demand{Role: j.config.Role}
	if n := len(j.in(phaseWaiting)); n > 0 {
		demand.Shapes = []api.Shape{{Resources: j.config.Task.Resources, Count: int64(n), Constraint: j.config.Constraint}}
	}
	// Demand only makes offers better; without it they are answered just as well.
	_ = j.client.Demand(demand)
}

func (j *job) in(p phase) []*instance {
	return slices.DeleteFunc(slices.Clone(j.instances), func(i *instance) bool { return i.phase != p })
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

func (j *job) answer(offer api.Offer, now time.Time) api.Answer {
	waiting := j.in(phaseWaiting)
	if len(waiting) == 0 {
		return api.Decline(offer, idleFilter)
	}
	rest := offer.Resources.UsableBy(offer.Role)
	var tasks []api.Task
	soon := time.Duration(0)
	for _, i := range waiting {
		if i.rest.After(now) {
			soon = restMin
			continue
		}
		_, left, ok := rest.Carve(j.config.Task.Resources)
		if !ok {
			break
		}
		rest = left
		tasks = append(tasks, j.launch(i, offer.Agent, now))
	}
	if len(tasks) == 0 {
		return api.Decline(offer, soon)
	}
	return api.Launch(offer, tasks...)
}

func (j *job) launch(i *instance, agent api.AgentID, now time.Time) api.Task {
	i.phase, i.agent, j.launched = phaseLaunched, agent, now
	task := j.config.Task
	task.ID = i.id
	return task
}

// Update is called for each step in a task's life.
func (j *job) Update(_ context.Context, status api.Status) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := j.byID[status.Task]
	if i == nil || i.phase == phaseOver {
		return nil // of an attempt before
	}
	before := i.state
	i.state = status.State
	if status.Agent != "" {
		i.agent = status.Agent
	}
	j.startFollowing(i)
	switch {
	case status.State.Terminal():
		j.ended(i, status)
	case before == status.State:
	case status.State == api.TaskUnreachable:
		j.config.Say("%s: agent %s is silent; waiting for it to come back", i.id, i.agent)
	case before == api.TaskUnreachable:
		j.config.Say("%s: agent %s is back", i.id, i.agent)
	}
	return nil
}

// startFollowing begins when there may be output: the agent prepares the task, or had it.
func (j *job) startFollowing(i *instance) {
	never := []api.TaskState{api.TaskStaging, api.TaskError, api.TaskDropped, api.TaskUnknown}
	if i.followed || i.agent == "" || slices.Contains(never, i.state) {
		return
	}
	i.followed = true
	j.follow(i)
}

// ended takes an attempt's terminal status: the instance is over, or tried again.
func (j *job) ended(i *instance, status api.Status) {
	close(i.ended)
	lost := status.State == api.TaskGone || status.State == api.TaskKilled && status.Reason == api.ReasonRevoked
	again := status.State == api.TaskDropped || lost && j.config.Retry
	if again && !j.killing {
		j.config.Say("%s was not to be (%s); trying again", i.id, why(status))
		i.attempt++
		i.rest = time.Now().Add(min(restMin<<min(i.attempt-1, 10), restMax))
		j.enter(i)
		j.demand()
		return
	}
	i.phase, i.code = phaseOver, codeOf(status)
	j.tell(i, status)
	j.closeIfOver()
}

// closeIfOver ends the run with its last instance.
func (j *job) closeIfOver() {
	if len(j.in(phaseOver)) < len(j.instances) {
		return
	}
	select {
	case <-j.over:
	default:
		close(j.over)
	}
}

// tell says how an instance ended where its output and exit code do not.
func (j *job) tell(i *instance, status api.Status) {
	plainly := status.State == api.TaskFinished || status.State == api.TaskFailed && status.ExitCode != nil
	switch {
	case plainly && status.Reason == api.ReasonNone && (len(j.instances) == 1 || i.code == 0):
	case j.killing && status.State == api.TaskKilled:
	default:
		j.config.Say("%s ended %s", i.id, why(status))
	}
}

// why is a terminal status in words: "FAILED: MEMORY_LIMIT: it used …".
func why(status api.Status) string {
	parts := []string{status.State.String()}
	if status.Reason != api.ReasonNone {
		parts = append(parts, status.Reason.String())
	}
	if status.ExitCode != nil && *status.ExitCode != 0 {
		parts = append(parts, fmt.Sprintf("exit code %d", *status.ExitCode))
	}
	if status.Message != "" {
		parts = append(parts, status.Message)
	}
	return strings.Join(parts, ": ")
}

// codeOf is what an instance adds to the run's exit code.
func codeOf(status api.Status) int {
	switch {
	case status.ExitCode != nil && *status.ExitCode != 0:
		return *status.ExitCode & 0xff
	case status.State == api.TaskFinished:
		return 0
	}
	return 1
}

// killAll ends every instance: those that wait at once, the others by a kill. It returns how many are awaited.
func (j *job) killAll() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.killing = true
	for _, i := range j.in(phaseWaiting) {
		i.phase, i.code = phaseOver, 1
	}
	j.demand()
	launched := j.in(phaseLaunched)
	for _, i := range launched {
		// The SDK repeats it until the task has ended; it refuses only what it never launched.
		_ = j.client.Kill(i.id)
	}
	j.closeIfOver()
	return len(launched)
}

func (j *job) code() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, i := range j.instances {
		if i.code != 0 {
			return i.code
		}
	}
	return 0
}

func (j *job) allOver() bool {
	select {
	case <-j.over:
		return true
	default:
		return false
	}
}

// ref addresses a task of this run.
func (j *job) ref(id api.TaskID) api.TaskRef {
	return api.TaskRef{Framework: j.client.FrameworkID(), Task: id}
}

// subscribed says that there was a session.
func (j *job) subscribed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.client != nil
}

// idle says for how long nothing was launched while something waits; 0 when nothing waits.
func (j *job) idle(now time.Time) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.killing || len(j.in(phaseWaiting)) == 0 {
		return 0
	}
	return now.Sub(j.launched)
}

// summary counts the instances: "12 waiting, 30 running, 8 ended".
func (j *job) summary() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return fmt.Sprintf("%d waiting, %d running, %d ended",
		len(j.in(phaseWaiting)), len(j.in(phaseLaunched)), len(j.in(phaseOver)))
}
