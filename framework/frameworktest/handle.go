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

// Handle is the cluster in the hands of a story. Its methods belong to the story's goroutine. Those
// that wait fail the test when what they wait for does not come in (virtual) time.
type Handle struct {
	t       *testing.T
	cluster Cluster
	network *network
	journal *journal
	logs    *logs
	// callbacks are shared with a goroutine outside of the bubble.
	callbacks *callbacks
	live      sync.WaitGroup // masters, agents, schedulers and what watches them

	masters    []*Master
	agents     []*Agent
	frameworks []*Framework
	operator   *operator
	key        trust.Key // of the cluster
	inspected  time.Time
	hosts      map[string]int // how often a name was given
	plans      []Plan         // of the chaos so far, for a failure to show
}

const (
	day = 24 * time.Hour
	// awaitMax is how long a story waits for what should come by itself: longer than a failover,
	// a tombstone and a recovery hold together.
	awaitMax = 10 * time.Minute
	// pollEvery is how often it looks.
	pollEvery = 20 * time.Millisecond
	// unsettledShown bounds the tasks whose story is told when something is wrong.
	unsettledShown = 3
)

// Run builds the cluster, tells the story, ends everything and holds the promises against what
// happened. It opens a bubble of its own, so call it in a test (or in a T.Run), never in a bubble.
func Run(t *testing.T, cluster Cluster, story func(c *Handle)) {
	t.Helper()
	defer collectSeldom()()
	callbacks := newCallbacks()
	defer callbacks.watch()()
	synctest.Test(t, func(t *testing.T) {
		h := newHandle(t, cluster)
		h.callbacks = callbacks
		defer h.end()
		h.begin()
		story(h)
		h.finish()
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

func (h *Handle) begin() {
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

// finish lets what has ended come to rest before the promises are held against it.
func (h *Handle) finish() {
	h.inspectDemands()
	for _, f := range h.frameworks {
		f.mu.Lock()
		id := f.id
		f.mu.Unlock()
		h.journal.forget(id) // whoever still has tasks is ended with them, untold
		f.end()
	}
}

// end ends everything, in order from the outside in.
func (h *Handle) end() {
	h.noteFailure()
	for _, f := range h.frameworks {
		f.end()
	}
	for _, a := range h.agents {
		a.shutdown()
		a.host.endAll()
	}
	for _, m := range h.masters {
		m.shutdown()
	}
	h.operator.close()
	if !slices.ContainsFunc(h.frameworks, func(f *Framework) bool { return f.stuck }) {
		h.live.Wait()
	}
	h.report()
}

// noteFailure keeps what led to a failure that the test has noticed.
func (h *Handle) noteFailure() {
	if h.t.Failed() {
		h.logs.failed()
	}
}

// errorf fails the test, and keeps what led there.
func (h *Handle) errorf(format string, args ...any) {
	h.t.Helper()
	h.logs.failed()
	h.t.Errorf(format, args...)
}

// report fails the test for each broken promise and, when it has failed, prints what led there.
func (h *Handle) report() {
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
		h.t.Log(h.journal.story(ref))
	}
	h.t.Logf("%v of virtual time; %s", h.Now(), h.journal.summary())
	if h.t.Failed() {
		for _, plan := range h.plans {
			h.t.Logf("the chaos of this story: %v", plan)
		}
		h.printLogs()
	}
}

// printLogs writes the logs into a file where the test keeps its artifacts, and the last lines to the
// test's own output.
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

// T is the test within the bubble: its Context may be used in the story, that of the test around it not.
func (h *Handle) T() *testing.T { return h.t }

// Now is the virtual time since the story's clock began.
func (h *Handle) Now() time.Duration { return time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) }

// Advance lets the time pass.
func (h *Handle) Advance(d time.Duration) {
	h.noteFailure()
	time.Sleep(d)
	synctest.Wait()
}

// Await waits until the condition holds. The test fails with the words when it does not come true in
// ten minutes; see AwaitFor.
func (h *Handle) Await(what string, condition func() bool) {
	h.t.Helper()
	h.await(what, awaitMax, condition)
}

// AwaitFor is Await with another patience.
func (h *Handle) AwaitFor(limit time.Duration, what string, condition func() bool) {
	h.t.Helper()
	h.await(what, limit, condition)
}

func (h *Handle) await(what string, limit time.Duration, condition func() bool) {
	h.t.Helper()
	began := time.Now()
	pause := pollEvery
	for !condition() {
		h.inspect()
		if time.Since(began) >= limit {
			h.t.Fatalf("at %v: waited %v for %s\n%s%s", h.Now(), limit, what, h.allBlocked(), h.Describe())
		}
		h.noteFailure()
		time.Sleep(pause)
		if time.Since(began) > awaitMax {
			pause = time.Second // who waits for hours need not look fifty times a second
		}
	}
}

// Describe shows the cluster as the leader sees it, for people.
func (h *Handle) Describe() string {
	var out strings.Builder
	for _, m := range h.masters {
		fmt.Fprintf(&out, "%s: %s\n", m.host, m.describe())
	}
	h.operator.describe(&out)
	for _, a := range h.agents {
		fmt.Fprintf(&out, "%s: %s\n", a.host.name, a.describe())
	}
	for _, f := range h.frameworks {
		fmt.Fprintf(&out, "%s: %s\n", f.host, f.describe())
	}
	for i, ref := range h.journal.unsettled() {
		if i == unsettledShown {
			break
		}
		out.WriteString(h.journal.story(ref))
	}
	return out.String()
}

// Story lists what happened to a task, at both ends, in order of time.
func (h *Handle) Story(task api.TaskRef) string { return h.journal.story(task) }

// hostFor gives a name to a new host.
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

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func join(states []api.TaskState) string {
	var names []string
	for _, state := range states {
		names = append(names, state.String())
	}
	return strings.Join(names, " or ")
}
