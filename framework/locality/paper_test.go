package locality_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/locality"
)

// The setting of the paper, in small: 100 agents in racks of ten, with two slots each; tasks of about ten seconds; jobs
// whose blocks are on three agents each. There are more jobs than there is room for.
const (
	agents    = 100
	slots     = 2
	taskTime  = 10 * time.Second
	smallJob  = 3
	largeJob  = 100
	smallJobs = 400
	largeJobs = 4
)

// outcome is the outcome of a run.
type outcome struct {
	locality.Numbers
	small, large time.Duration // mean time of a job from its arrival to its end
}

// happening is something that the run does at a given time.
type happening struct {
	at time.Time
	do func()
}

type happenings []happening

func (h happenings) Len() int           { return len(h) }
func (h happenings) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h happenings) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)        { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// grid is a cluster that offers what is free and was not refused.
type grid struct {
	d       *locality.Delay
	random  *rand.Rand
	todo    happenings
	free    [agents]int
	refused [agents]time.Time
	jobOf   map[api.TaskID]string
	left    map[string]int
	began   map[string]time.Time
	took    map[string]time.Duration
}

func (g *grid) in(wait time.Duration, do func()) {
	heap.Push(&g.todo, happening{time.Now().Add(wait), do})
}

func (g *grid) arrive(job string, tasks int) {
	g.left[job], g.began[job] = tasks, time.Now()
	for i := range tasks {
		id := fmt.Sprint(job, "-", i)
		g.jobOf[api.TaskID(id)] = job
		g.d.Add(job, task(id), at(g.random.Perm(agents)[:3]...))
	}
	for agent := range agents {
		g.refused[agent] = time.Time{} // as a scheduler does by Revive
	}
	for _, agent := range g.random.Perm(agents) {
		g.offer(agent)
	}
}

func (g *grid) offer(agent int) {
	if g.free[agent] == 0 || time.Now().Before(g.refused[agent]) {
		return
	}
	answer := g.d.Offers([]api.Offer{offer(agent, g.free[agent])})[0]
	for _, operation := range answer.Operations {
		for _, task := range operation.Tasks {
			g.free[agent]--
			g.in(taskTime/2+time.Duration(g.random.Int64N(int64(taskTime))), func() { g.end(agent, task.ID) })
		}
	}
	if refuse := answer.Filter.For(); g.free[agent] > 0 {
		g.refused[agent] = time.Now().Add(refuse)
		g.in(refuse, func() { g.offer(agent) })
	}
}

func (g *grid) end(agent int, task api.TaskID) {
	g.d.Ended(task)
	job := g.jobOf[task]
	if g.left[job]--; g.left[job] == 0 {
		g.took[job] = time.Since(g.began[job])
	}
	g.free[agent]++
	g.refused[agent] = time.Time{} // more is free than was refused
	g.offer(agent)
}

// simulate runs all jobs to their end, with this wait, in virtual time.
func simulate(t *testing.T, wait time.Duration) (result outcome) {
	synctest.Test(t, func(t *testing.T) {
		g := &grid{
			d:      locality.New(locality.Config{Node: locality.Wait{Time: wait}}),
			random: rand.New(rand.NewPCG(1, 2)),
			jobOf:  map[api.TaskID]string{}, left: map[string]int{}, began: map[string]time.Time{}, took: map[string]time.Duration{},
		}
		for agent := range agents {
			g.free[agent] = slots
		}
		for i := range largeJobs {
			g.in(time.Duration(i)*5*time.Second, func() { g.arrive(fmt.Sprint("large", i), largeJob) })
		}
		for i := range smallJobs {
			g.in(time.Duration(i)*150*time.Millisecond, func() { g.arrive(fmt.Sprint("small", i), smallJob) })
		}
		for len(g.took) < smallJobs+largeJobs {
			next := heap.Pop(&g.todo).(happening)
			if pause := time.Until(next.at); pause > 0 {
				<-time.After(pause)
			}
			next.do()
		}
		if left := g.d.Queued(""); left != 0 {
			t.Fatalf("%d tasks never ran", left)
		}
		result.Numbers = g.d.Numbers("")
		result.small, result.large = g.mean("small", smallJobs), g.mean("large", largeJobs)
	})
	return result
}

func (g *grid) mean(kind string, n int) (sum time.Duration) {
	for i := range n {
		sum += g.took[fmt.Sprint(kind, i)]
	}
	return sum / time.Duration(n)
}

// TestShapeOfThePaper: a short wait makes nearly all tasks local and costs little.
func TestShapeOfThePaper(t *testing.T) {
	outcomes := map[time.Duration]outcome{}
	for _, wait := range []time.Duration{0, time.Second, 5 * time.Second, 10 * time.Second} {
		o := simulate(t, wait)
		outcomes[wait] = o
		t.Logf("wait %3.0f s: %5.1f %% local, mean wait %4.2f s, small jobs %5.1f s, large jobs %5.1f s",
			wait.Seconds(), 100*o.HitRate(), o.MeanWait().Seconds(), o.small.Seconds(), o.large.Seconds())
	}
	if hits := outcomes[0].HitRate(); hits >= 0.40 {
		t.Errorf("%.1f %% are local without waiting; want under 40 %%", 100*hits)
	}
	long := outcomes[10*time.Second]
	if long.HitRate() <= 0.95 || long.MeanWait() >= 5*time.Second {
		t.Errorf("%.1f %% are local, mean wait %v; want over 95 %% under 5 s", 100*long.HitRate(), long.MeanWait())
	}
	last := -1.0
	for _, wait := range []time.Duration{0, time.Second, 5 * time.Second, 10 * time.Second} {
		if hits := outcomes[wait].HitRate(); hits < last {
			t.Errorf("waiting %v brings fewer hits (%.2f) than less waiting (%.2f)", wait, hits, last)
		} else {
			last = hits
		}
	}
}
