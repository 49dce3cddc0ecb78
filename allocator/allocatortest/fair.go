package allocatortest

import (
	"fmt"
	"testing"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"pgregory.net/rapid"
)

// Fair checks that a policy has the properties of dominant resource fairness (NSDI'11, section 3), for demand that is
// as good as divisible. With n users nobody gets less than an n-th of the cluster, nobody could run more tasks with
// what another user has, and lying does not pay. Revocable resources do not count.
func Fair(t *testing.T, fresh func() allocator.Allocator) {
	t.Run("sharing incentive, no envy", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { nobodyEnvies(t, fresh) })
	})
	t.Run("lying does not pay", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { lyingDoesNotPay(t, fresh) })
	})
	t.Run("what is revocable costs nothing firm", func(t *testing.T) { revocableIsFree(NewCluster(t, fresh())) })
}

// want is what each task of a user takes. It is small compared with the cluster, so that resources are as good as
// divisible.
type want struct{ cpus, mem int }

// whole is the size of the cluster in thousandths: ten agents with 10 cpus and 10 MB each.
const whole = 100_000

// divide lets users with endless demand share one cluster, and returns how many tasks each of them runs.
func divide(t *rapid.T, fresh func() allocator.Allocator, users []want) []int {
	c := NewCluster(quiet{t}, fresh())
	tasks := make(map[api.FrameworkID]api.Resources)
	for i, u := range users {
		id := api.FrameworkID(fmt.Sprintf("u%d", i))
		tasks[id] = api.Scalars(float64(u.cpus)/1000, float64(u.mem)/1000)
		c.Framework(id, api.Role(id))
		c.Demand(id, api.Role(id), api.Shape{Resources: tasks[id], Count: 1_000_000})
	}
	for i := range 10 {
		c.Agent(api.AgentID(fmt.Sprintf("s%d", i)), "cpus:10;mem:10")
	}
	got := make([]int, len(users))
	for {
		offers := c.Allocate()
		if len(offers) == 0 {
			return got
		}
		for _, o := range offers {
			var launch []api.Resources
			for rest := o.Resources; ; {
				_, left, fits := rest.Carve(tasks[o.Framework])
				if !fits {
					break
				}
				rest, launch = left, append(launch, tasks[o.Framework])
			}
			c.Accept(o, 0, launch...)
			var i int
			if _, err := fmt.Sscanf(string(o.Framework), "u%d", &i); err != nil {
				t.Fatalf("%v", err)
			}
			got[i] += len(launch)
		}
	}
}

// tasksIn returns how many tasks of the user fit into these thousandths, as a fraction.
func (w want) tasksIn(cpus, mem float64) float64 {
	return min(cpus/float64(w.cpus), mem/float64(w.mem))
}

func (w want) share(tasks int) float64 {
	return float64(max(w.cpus, w.mem)*tasks) / whole
}

func drawUsers(t *rapid.T) []want {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) want {
		return want{rapid.IntRange(200, 900).Draw(t, "cpus"), rapid.IntRange(200, 900).Draw(t, "mem")}
	}), 2, 4).Draw(t, "users")
}

// slack is the error that the sizes of tasks and agents may cause: each of the ten agents ends with less than a task
// free, and each user may be one helping ahead.
const slack = 0.15

func nobodyEnvies(t *rapid.T, fresh func() allocator.Allocator) {
	users := drawUsers(t)
	got := divide(t, fresh, users)
	for i, u := range users {
		share := u.share(got[i])
		if share < (1-slack)/float64(len(users)) {
			t.Fatalf("sharing incentive: %v got %v of %v, less than its n-th of the cluster: %.3f", u, got, users, share)
		}
		for j, other := range users {
			envied := u.tasksIn(float64(other.cpus*got[j]), float64(other.mem*got[j]))
			if envied > float64(got[i])*(1+slack)+1 {
				t.Fatalf("envy: user %d of %v runs %d tasks and could run %.1f with what user %d has", i, users, got[i], envied, j)
			}
		}
	}
}

// lyingDoesNotPay: a user who says that its tasks need more than they do does not run more of them.
func lyingDoesNotPay(t *rapid.T, fresh func() allocator.Allocator) {
	users := drawUsers(t)
	honest := divide(t, fresh, users)[0]
	truth := users[0]
	users[0].cpus += rapid.IntRange(0, 600).Draw(t, "more cpus")
	users[0].mem += rapid.IntRange(0, 600).Draw(t, "more mem")
	lying := divide(t, fresh, users)[0]
	has := truth.tasksIn(float64(users[0].cpus*lying), float64(users[0].mem*lying))
	if useful := min(has, float64(lying)); useful > float64(honest)*(1+slack)+1 {
		t.Fatalf("the truth %v gives %d tasks, the lie %v gives %.1f", truth, honest, users, useful)
	}
}

// quiet is a T that leaves out the log of the cluster.
type quiet struct{ T }

// Logf does nothing.
func (quiet) Logf(string, ...any) {}
