package manager

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/jobs"
)

// twin is the cluster as a manager sees it, in memory: it keeps what the manager writes, and the tasks that it
// launches.
type twin struct {
	mu       sync.Mutex
	store    map[string][]byte
	launched []api.TaskID
	asked    []api.TaskID // tasks whose states it was asked for
}

func newTwin() *twin { return &twin{store: make(map[string][]byte)} }

func (t *twin) FrameworkID() api.FrameworkID { return "framework-1" }
func (t *twin) Takeovers() uint64            { return 0 }
func (t *twin) Demand(api.Demand) error      { return nil }
func (t *twin) Roles() []api.Role            { return []api.Role{api.DefaultRole} }
func (t *twin) Kill(api.TaskID) error        { return nil }
func (t *twin) Acknowledge(api.Status) error { return nil }

func (t *twin) TellJob(api.JobEvent) error { return nil }

func (t *twin) TellJobDemand(map[string]int64) error { return nil }

func (t *twin) ExplainShape(context.Context, api.Role, api.Shape, bool) (reasons []string, inVain bool, err error) {
	return nil, false, nil
}

func (t *twin) Join(context.Context, api.Role) error { return nil }

func (t *twin) Reconcile(tasks ...api.TaskID) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = append(t.asked, tasks...)
	return nil
}

func (t *twin) Answer(answers ...api.Answer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, answer := range answers {
		for _, operation := range answer.Operations {
			for _, task := range operation.Tasks {
				t.launched = append(t.launched, task.ID)
			}
		}
	}
	return nil
}

func (t *twin) Put(_ context.Context, key string, value []byte, _ int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.store[key] = value
	return nil
}

func (t *twin) StandsBy() bool { return false }

func (t *twin) Delete(_ context.Context, key string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.store, key)
	return nil
}

func (t *twin) All(_ context.Context, prefix string) iter.Seq2[framework.Entry, error] {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []framework.Entry
	for _, key := range slices.Sorted(maps.Keys(t.store)) {
		if strings.HasPrefix(key, prefix) {
			list = append(list, framework.Entry{Key: key, Value: t.store[key]})
		}
	}
	return func(yield func(framework.Entry, error) bool) {
		for _, entry := range list {
			if !yield(entry, nil) {
				return
			}
		}
	}
}

// newManager makes a manager that is active in the twin.
func (t *twin) newManager(b testing.TB) *Manager {
	m := New(Config{JobsMax: 1 << 20})
	if err := m.beginSession(b.Context(), t); err != nil {
		b.Fatal(err)
	}
	m.Settled(b.Context())
	return m
}

// written waits until everything has been written.
func (m *Manager) written(b testing.TB) {
	m.mu.Lock()
	all := m.outcomeOf("test", "")
	m.mu.Unlock()
	if err := await(b.Context(), "test", "", all); err != nil {
		b.Fatal(err)
	}
}

func submitMany(b testing.TB, m *Manager, first, n, tasks int) {
	for i := range n {
		job := jobs.Job{Name: fmt.Sprintf("job-%05d", first+i), Type: jobs.BatchType, Task: jobs.Task{Command: "sleep 1000", CPUs: 0.001, Mem: 1},
			Batch: &jobs.Batch{Completions: tasks, Parallelism: tasks}}
		if _, err := m.SubmitJob(b.Context(), job); err != nil {
			b.Fatal(err)
		}
	}
}

var offers int

// offer offers the manager room for this many tasks on one agent.
func (m *Manager) offer(b testing.TB, tasks int) []api.Answer {
	offers++
	offer := api.Offer{ID: api.OfferID(fmt.Sprint("offer-1-", offers)), Framework: "framework-1", Agent: "agent-1", Hostname: "host-1", Role: api.DefaultRole,
		Resources: api.Scalars(float64(tasks)/1000, float64(tasks))}
	return m.Offers(b.Context(), []api.Offer{offer})
}

// begin makes this many jobs whose tasks all run.
func begin(b testing.TB, n, tasks int) (*twin, *Manager) {
	t := newTwin()
	m := t.newManager(b)
	submitMany(b, m, 0, n, tasks)
	for len(t.launched) < n*tasks {
		m.offer(b, 1000)
		m.written(b)
	}
	for _, task := range t.launched {
		if err := m.Update(b.Context(), api.Status{Task: task, Agent: "agent-1", State: api.TaskRunning, Number: 1}); err != nil {
			b.Fatal(err)
		}
	}
	return t, m
}

// TestAsksForWhatNobodyHasTold: a manager that takes over is told by the leader which tasks it knows. Only when it has
// been told all of them, the manager asks for the others.
func TestAsksForWhatNobodyHasTold(t *testing.T) {
	twin, _ := begin(t, 3, 4)
	next := New(Config{})
	if err := next.beginSession(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	for _, task := range twin.launched[1:] {
		if err := next.Update(t.Context(), api.Status{Task: task, Agent: "agent-1", State: api.TaskRunning, Number: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if len(twin.asked) > 0 {
		t.Errorf("it asks for %v before the leader has told what it knows", twin.asked)
	}
	next.Settled(t.Context())
	if !slices.Equal(twin.asked, twin.launched[:1]) {
		t.Errorf("it asks for %v, and of %v nobody has told", twin.asked, twin.launched[:1])
	}
}

var sizes = []int{100, 10_000}

// BenchmarkTakeOver measures how long a manager that takes over needs to read all jobs from the store.
func BenchmarkTakeOver(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t, _ := begin(b, n, 10)
			for b.Loop() {
				m := New(Config{})
				if err := m.loadJobs(b.Context(), t); err != nil || len(m.keeper.Names()) != n {
					b.Fatal(len(m.keeper.Names()), err)
				}
			}
		})
	}
}

// BenchmarkOfferBacklog measures an offer with room for one task while many tasks wait.
func BenchmarkOfferBacklog(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t := newTwin()
			m := t.newManager(b)
			submitMany(b, m, 0, n, 1000)
			for b.Loop() {
				m.offer(b, 1)
				m.written(b)
			}
		})
	}
}

// BenchmarkStatus measures the status of one task among many.
func BenchmarkStatus(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t, m := begin(b, n, 10)
			for i := 0; b.Loop(); i++ {
				status := api.Status{Task: t.launched[i%len(t.launched)], Agent: "agent-1", State: api.TaskRunning, Number: 2, At: time.Now()}
				if err := m.Update(b.Context(), status); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkChange measures one job among many: it is submitted, its task runs, and it is deleted.
func BenchmarkChange(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t, m := begin(b, n, 10)
			for i := 0; b.Loop(); i++ {
				submitMany(b, m, n+i, 1, 1)
				m.offer(b, 1)
				m.written(b)
				task := t.launched[len(t.launched)-1]
				_ = m.Update(b.Context(), api.Status{Task: task, Agent: "agent-1", State: api.TaskRunning, Number: 1})
				if err := m.DeleteJob(b.Context(), fmt.Sprintf("job-%05d", n+i)); err != nil {
					b.Fatal(err)
				}
				_ = m.Update(b.Context(), api.Status{Task: task, Agent: "agent-1", State: api.TaskKilled, Number: 2})
				m.written(b)
			}
		})
	}
}

// BenchmarkList measures the list of all jobs, in pages.
func BenchmarkList(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, m := begin(b, n, 1)
			for b.Loop() {
				query, count := ListQuery{Limit: 100}, 0
				for more := true; more; {
					page, next, err := m.ListJobs(b.Context(), query)
					if err != nil {
						b.Fatal(err)
					}
					count += len(page)
					query.After, more = page[len(page)-1].Name, next
				}
				if count != n {
					b.Fatal(count)
				}
			}
		})
	}
}
