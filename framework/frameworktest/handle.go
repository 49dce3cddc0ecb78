package frameworktest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
)

// Handle is the cluster as a story uses it. Only the story's goroutine may call its methods. A method that waits fails
// the test if what it waits for does not come in (virtual) time.
type Handle struct {
	t       *testing.T
	cluster Cluster
	network *network
	journal *journal
	logs    *logs
	// callbacks is shared with a goroutine outside of the bubble.
	callbacks *callbacks
	live      sync.WaitGroup // masters, agents, schedulers, and the goroutines that watch them

	masters    []*Master
	agents     []*Agent
	frameworks []*Framework
	operator   *operator
	key        trust.Key // the cluster's key
	inspected  time.Time
	hosts      map[string]int // how often each name was given
	plans      []Plan         // plans of chaos so far, for a failure to print
}

const (
	day = 24 * time.Hour
	// awaitMax is how long a story waits for what should come by itself. It is longer than a failover, a tombstone and
	// a recovery together.
	awaitMax = 10 * time.Minute
	// pollEvery is how often a condition is checked while the story waits.
	pollEvery = 20 * time.Millisecond
	// unsettledShown bounds the tasks whose story is printed when something is wrong.
	unsettledShown = 3
)

// Run builds the cluster, runs the story, ends everything, and checks the cluster's promises against what has happened.
// It opens a bubble of its own, so call it in a test or in a T.Run, never in a bubble.
func Run(t *testing.T, cluster Cluster, story func(c *Handle)) {
	t.Helper()
	defer collectSeldom()()
	callbacks := newCallbacks()
	defer callbacks.watch()()
	synctest.Test(t, func(t *testing.T) {
		h := newHandle(t, cluster)
		h.callbacks = callbacks
		defer h.endAll()
		h.beginStory()
		story(h)
		h.finishStory()
	})
}

func newHandle(t *testing.T, cluster Cluster) *Handle {
	cluster = cluster.withDefaults()
	h := &Handle{
		t: t, cluster: cluster, network: newNetwork(), journal: newJournal(), logs: &logs{},
		hosts: make(map[string]int), key: trust.NewKey(),
	}
	h.journal.failed = h.logs.failed
	if cluster.Latency > 0 {
		h.network.jitter(cluster.Latency, cluster.Seed)
	}
	return h
}

func (h *Handle) beginStory() {
	h.operator = newOperator(h)
	for i := range h.cluster.Masters {
		h.masters = append(h.masters, newMaster(h, i+1))
	}
	for _, m := range h.masters {
		m.Start()
	}
	for range max(h.cluster.Agents, 0) {
		h.AddAgent(h.cluster.Machine)
	}
	h.Leader()
	h.AwaitAgents(max(h.cluster.Agents, 0))
}

// finishStory lets everything come to rest before the promises are checked.
func (h *Handle) finishStory() {
	h.inspectDemands()
	for _, f := range h.frameworks {
		h.journal.forgetScheduler(f.ID()) // tasks of such a framework are ended with it, without being told
		f.endScheduler()
	}
}

// endAll ends everything: first schedulers, then agents, then masters.
func (h *Handle) endAll() {
	h.noteFailure()
	for _, f := range h.frameworks {
		f.endScheduler()
	}
	for _, a := range h.agents {
		a.life.endRun()
		a.host.endAll()
	}
	for _, m := range h.masters {
		m.life.endRun()
	}
	h.operator.close()
	if !slices.ContainsFunc(h.frameworks, func(f *Framework) bool { return f.stuck }) {
		h.live.Wait()
	}
	h.reportBroken()
}

// noteFailure keeps the log lines that led to a failure, if the test has failed.
func (h *Handle) noteFailure() {
	if h.t.Failed() {
		h.logs.failed()
	}
}

// failStory fails the test, and keeps the log lines that led there.
func (h *Handle) failStory(format string, args ...any) {
	h.t.Helper()
	h.logs.failed()
	h.t.Errorf(format, args...)
}

// reportBroken fails the test for each broken promise. If the test has failed, it prints what led there.
func (h *Handle) reportBroken() {
	h.journal.mu.Lock()
	broken, suspects, mistakes := slices.Clone(h.journal.violations), slices.Clone(h.journal.suspects), slices.Clone(h.journal.mistakes)
	h.journal.mu.Unlock()
	for _, mistake := range mistakes {
		h.t.Errorf("a mistake of the scheduler: a task's ID is used twice: %s", mistake)
	}
	for _, violation := range broken {
		h.t.Errorf("a promise is broken: %s", violation)
	}
	for i, ref := range suspects {
		if i == unsettledShown {
			break
		}
		h.t.Log(h.journal.storyOf(ref))
	}
	h.t.Logf("%v of virtual time; %s", h.Now(), h.journal.summarizeLives())
	if h.t.Failed() {
		for _, plan := range h.plans {
			h.t.Logf("the chaos of this story: %v", plan)
		}
		h.printLogs()
	}
}

// printLogs writes the logs into a file in the test's artifacts folder, and prints the last lines.
func (h *Handle) printLogs() {
	var all strings.Builder
	h.logs.print(&all)
	h.t.Logf("the last lines of the cluster's logs before the failure:\n%s", strings.Join(h.logs.before(), "\n"))
	file, err := os.CreateTemp("", "frameworktest-*.log")
	if err != nil {
		return
	}
	defer file.Close()
	if _, err := file.WriteString(all.String()); err == nil {
		h.t.Logf("all of them: %s", file.Name())
	}
}

// T returns the test within the bubble. Its Context may be used in the story; that of the test around the story may
// not.
func (h *Handle) T() *testing.T { return h.t }

// Now returns the virtual time since the story's clock began.
func (h *Handle) Now() time.Duration { return time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) }

// Advance lets the time pass.
func (h *Handle) Advance(d time.Duration) {
	h.noteFailure()
	time.Sleep(d)
	synctest.Wait()
}

// Await waits until the condition holds. The test fails, with what as the description, if it does not hold within ten
// minutes; see AwaitFor.
func (h *Handle) Await(what string, condition func() bool) {
	h.t.Helper()
	h.AwaitFor(awaitMax, what, condition)
}

// AwaitFor is Await with another limit.
func (h *Handle) AwaitFor(limit time.Duration, what string, condition func() bool) {
	h.t.Helper()
	began := time.Now()
	pause := pollEvery
	for !condition() {
		h.inspectView()
		if time.Since(began) >= limit {
			h.t.Fatalf("at %v: waited %v for %s\n%s%s", h.Now(), limit, what, h.allBlocked(), h.Describe())
		}
		h.noteFailure()
		time.Sleep(pause)
		if time.Since(began) > awaitMax {
			pause = time.Second // a story that waits for hours need not look fifty times a second
		}
	}
}

// Describe describes for people the cluster as the leader sees it.
func (h *Handle) Describe() string {
	var out strings.Builder
	for _, m := range h.masters {
		fmt.Fprintf(&out, "%s: %s\n", m.host, m.describeMaster())
	}
	h.operator.describe(&out)
	for _, a := range h.agents {
		fmt.Fprintf(&out, "%s: %s\n", a.host.name, a.describeAgent())
	}
	for _, f := range h.frameworks {
		fmt.Fprintf(&out, "%s: %s\n", f.host, f.describeFramework())
	}
	for i, ref := range h.journal.unsettledTasks() {
		if i == unsettledShown {
			break
		}
		out.WriteString(h.journal.storyOf(ref))
	}
	return out.String()
}

// Story lists what happened to a task, as the scheduler and the machines saw it, in order of time.
func (h *Handle) Story(task api.TaskRef) string { return h.journal.storyOf(task) }

// hostFor returns a name for a new host.
func (h *Handle) hostFor(name string) string {
	if name == "" {
		name = "framework"
	}
	h.hosts[name]++
	if n := h.hosts[name]; n > 1 {
		return fmt.Sprintf("%s-%d", name, n)
	}
	return name
}

func join(states []api.TaskState) string {
	var names []string
	for _, state := range states {
		names = append(names, state.String())
	}
	return strings.Join(names, " or ")
}
