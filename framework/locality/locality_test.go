package locality_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/locality"
)

var offered int

// offer makes an offer of an agent, with room for this many tasks. Agents 0 to 9 are in rack 0, and so on.
func offer(agent, room int) api.Offer {
	offered++
	return api.Offer{
		ID: api.OfferID(fmt.Sprint("offer-1-", offered)), Agent: agentID(agent), Hostname: fmt.Sprint("host-", agent),
		Resources: api.Scalars(float64(room), 0), Attributes: map[string]string{"rack": fmt.Sprint(agent / 10)},
	}
}

func agentID(agent int) api.AgentID { return api.AgentID(fmt.Sprint("agent-", agent)) }

func task(id string) api.Task {
	return api.Task{ID: api.TaskID(id), Resources: api.Scalars(1, 0)}
}

func at(agents ...int) (prefer locality.Prefer) {
	for _, agent := range agents {
		prefer.Agents = append(prefer.Agents, agentID(agent))
	}
	return prefer
}

// launched returns the tasks of an answer, and for how long the rest is refused.
func launched(d *locality.Delay, o api.Offer) string {
	answer := d.Offers([]api.Offer{o})[0]
	var ids []api.TaskID
	for _, operation := range answer.Operations {
		for _, task := range operation.Tasks {
			ids = append(ids, task.ID)
		}
	}
	return fmt.Sprint(ids, " ", answer.Filter.Refuse)
}

func want(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLevelsByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locality.New(locality.Config{Node: locality.Wait{Time: 5 * time.Second}, Near: locality.Wait{Time: 10 * time.Second}})
		for i := range 5 {
			d.Add("j", task(fmt.Sprint("t", i)), at(1))
		}
		want(t, launched(d, offer(1, 1)), "[t0] 0s") // on the node, nothing is left
		<-time.After(time.Hour)                      // no offer came: no opportunity was missed
		want(t, launched(d, offer(2, 1)), "[] 5s")
		<-time.After(4 * time.Second)
		want(t, launched(d, offer(2, 1)), "[] 1s")
		<-time.After(time.Second)
		want(t, launched(d, offer(11, 1)), "[] 10s") // not near
		want(t, launched(d, offer(2, 1)), "[t1] 0s")
		want(t, launched(d, offer(3, 1)), "[t2] 0s") // stays at the level
		want(t, launched(d, offer(11, 1)), "[] 10s")
		<-time.After(10 * time.Second)
		want(t, launched(d, offer(11, 1)), "[t3] 0s")
		want(t, launched(d, offer(1, 1)), "[t4] 0s") // back at the node: the next task holds out again
		d.Add("j", task("t5"), at(1))
		want(t, launched(d, offer(2, 1)), "[] 5s")
		numbers := d.Numbers("j")
		if diff := cmp.Diff(locality.Numbers{Launched: [3]int{2, 2, 1}, Skipped: 5, Waited: 15 * time.Second, Longest: 10 * time.Second, Idle: 15 * time.Second}, numbers); diff != "" {
			t.Errorf("numbers (-want +got):\n%s", diff)
		}
		if numbers.HitRate() != 0.4 || numbers.MeanWait() != 3*time.Second {
			t.Errorf("%v hits, %v mean wait", numbers.HitRate(), numbers.MeanWait())
		}
	})
}

// TestHotAgent: an agent that frees a slot each second must not keep the job from using ten idle slots elsewhere. Where
// others use the slots that were let pass, the job waits for its agent again.
func TestHotAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locality.New(locality.Config{Node: locality.Wait{Time: 5 * time.Second}})
		for i := range 100 {
			d.Add("j", task(fmt.Sprint("t", i)), at(1))
		}
		want(t, launched(d, offer(2, 10)), "[] 5s") // ten slots, let pass
		for i := range 5 {
			<-time.After(time.Second)
			want(t, launched(d, offer(1, 1)), fmt.Sprintf("[t%d] 0s", i))
		}
		if idle := d.Numbers("j").Idle; idle != 50*time.Second {
			t.Errorf("%v idle, want ten slots for five seconds", idle)
		}
		want(t, launched(d, offer(2, 10)), "[t5 t6 t7 t8 t9 t10 t11 t12 t13 t14] 0s")
		want(t, launched(d, offer(1, 1)), "[t15] 0s")
		want(t, launched(d, offer(2, 1)), "[] 5s") // no slot was idle, so the job waits for its agent again
		<-time.After(10 * time.Second)             // others use the slot, so it is not offered again
		want(t, launched(d, offer(1, 1)), "[t16] 0s")
		want(t, launched(d, offer(2, 1)), "[] 5s")
		if n := d.Numbers("j"); n.Idle != 56*time.Second || n.Launched != [3]int{7, 10, 0} {
			t.Errorf("%+v", n)
		}
	})
}

// TestPlacementsTellOfIdleSlots: each launch tells the masters for how long slots were idle since the launch before.
func TestPlacementsTellOfIdleSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locality.New(locality.Config{Node: locality.Wait{Time: 5 * time.Second}})
		for i := range 100 {
			d.Add("j", task(fmt.Sprint("t", i)), at(1))
		}
		want(t, launched(d, offer(2, 10)), "[] 5s")
		for range 3 {
			<-time.After(time.Second)
			answer := d.Offers([]api.Offer{offer(1, 2)})[0]
			tasks := answer.Operations[0].Tasks
			if told := tasks[0].Placement.Idle + tasks[1].Placement.Idle; len(tasks) != 2 || told != 10*time.Second {
				t.Errorf("%d tasks tell of %v, want ten slots for a second", len(tasks), told)
			}
		}
	})
}

// TestPlacesAlone: a task that names only a rack runs anywhere in it at once. It does not change how long tasks of its
// job wait that prefer an agent.
func TestPlacesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locality.New(locality.Config{Node: locality.Wait{Time: time.Hour}, Near: locality.Wait{Time: time.Hour}})
		d.Add("j", task("agent"), at(1))
		d.Add("j", task("rack"), locality.Prefer{Places: []string{"2"}})
		want(t, launched(d, offer(11, 1)), "[] 1h0m0s")
		want(t, launched(d, offer(25, 2)), "[rack] 1h0m0s")
		want(t, launched(d, offer(2, 1)), "[] 1h0m0s") // near its agent, for which it still waits
		want(t, launched(d, offer(1, 1)), "[agent] 0s")
	})
}

// TestDemandNamesAgentsOfHosts: in a demand, hosts and places become the agents that earlier offers have shown there.
func TestDemandNamesAgentsOfHosts(t *testing.T) {
	d := locality.New(locality.Config{Node: locality.Wait{Time: 5 * time.Second}, Withhold: true})
	d.Add("j", task("host"), locality.Prefer{Hostnames: []string{"host-3"}})
	d.Add("k", task("rack"), locality.Prefer{Places: []string{"1"}})
	demand := func() (lines []string) {
		for _, shape := range d.Demand("r").Shapes {
			lines = append(lines, fmt.Sprint(shape.Count, shape.Preferred, shape.OnlyPreferred))
		}
		return lines
	}
	if diff := cmp.Diff([]string{"1 [] false", "1 [] false"}, demand()); diff != "" {
		t.Errorf("before any offer (-want +got):\n%s", diff)
	}
	d.Offers([]api.Offer{offer(3, 0), offer(14, 0), offer(12, 0), offer(22, 0)})
	if diff := cmp.Diff([]string{"1 [agent-3] true", "1 [agent-12 agent-14] false"}, demand()); diff != "" {
		t.Errorf("demand (-want +got):\n%s", diff)
	}
}

func TestLevelsBySkips(t *testing.T) {
	d := locality.New(locality.Config{Node: locality.Wait{Skips: 2}, Near: locality.Wait{Skips: 1}})
	d.Add("j", task("t0"), at(1))
	want(t, launched(d, offer(11, 1)), "[] 1s")
	want(t, launched(d, offer(12, 1)), "[] 1s") // near from now on
	want(t, launched(d, offer(12, 1)), "[t0] 0s")
}

// TestPlacement: each launch tells the masters how near it is, how long it waited, and for how long slots were idle
// meanwhile.
func TestPlacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locality.New(locality.Config{Node: locality.Wait{Time: 5 * time.Second}})
		for _, id := range []string{"t0", "t1"} {
			d.Add("j", task(id), at(1))
		}
		d.Add("home", task("t2"), locality.Prefer{})
		d.Offers([]api.Offer{offer(11, 1)}) // t2 is at home there
		<-time.After(time.Second)
		d.Offers([]api.Offer{offer(11, 1)})
		<-time.After(5 * time.Second)
		for i, want := range []api.Placement{{Level: api.PlacedAny, Waited: 6 * time.Second, Idle: 5 * time.Second}, {Level: api.PlacedNode}} {
			answer := d.Offers([]api.Offer{offer([]int{2, 1}[i], 1)})[0]
			if got := answer.Operations[0].Tasks[0].Placement; got != want {
				t.Errorf("launch %d is told as %+v, want %+v", i, got, want)
			}
		}
	})
}

func TestWithoutWaiting(t *testing.T) {
	d := locality.New(locality.Config{})
	d.Add("j", task("t0"), at(1))
	want(t, launched(d, offer(11, 1)), "[t0] 0s")
	if n := d.Numbers(""); n.Launched[locality.Any] != 1 || n.Skipped != 0 {
		t.Errorf("%+v", n)
	}
}

func TestHostsPlacesAndHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locality.New(locality.Config{Node: locality.Wait{Time: time.Hour}})
		d.Add("j", task("host"), locality.Prefer{Hostnames: []string{"host-3"}})
		d.Add("j", task("rack"), locality.Prefer{Places: []string{"2"}})
		d.Add("j", task("home"), locality.Prefer{})
		want(t, launched(d, offer(3, 1)), "[host] 0s")
		want(t, launched(d, offer(3, 2)), "[home] 1h0m0s")
		d.Waits("j", locality.Wait{}, locality.Wait{Time: time.Hour})
		want(t, launched(d, offer(3, 1)), "[] 1h0m0s")
		want(t, launched(d, offer(25, 1)), "[rack] 0s")
	})
}

func TestJobsWithFewerTasksGoFirst(t *testing.T) {
	d := locality.New(locality.Config{})
	for i := range 3 {
		d.Add("a", task(fmt.Sprint("a", i)), locality.Prefer{})
		d.Add("b", task(fmt.Sprint("b", i)), locality.Prefer{})
	}
	want(t, launched(d, offer(1, 4)), "[a0 b0 a1 b1] 0s")
	d.Ended("b0")
	d.Ended("b1")
	want(t, launched(d, offer(1, 2)), "[b2 a2] 0s")
	if d.Queued("") != 0 || d.Remove("a2") {
		t.Error("tasks are left")
	}
	d.Add("a", task("a2"), locality.Prefer{}) // runs
	d.Add("a", task("a3"), locality.Prefer{})
	if d.Queued("a") != 1 || !d.Remove("a3") || d.Queued("a") != 0 {
		t.Error("the queue is not kept")
	}
	d.Add("c", task("c0"), at(1))
	d.Forget("c")
	want(t, launched(d, offer(1, 1)), "[] 0s")
}

func TestDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locality.New(locality.Config{Node: locality.Wait{Time: 5 * time.Second}, Withhold: true})
		d.Add("j", task("t0"), at(1, 2))
		d.Add("j", task("t1"), at(2, 3))
		d.Add("j", task("t2"), locality.Prefer{})
		d.Add("j", task("t3"), locality.Prefer{Hostnames: []string{"host-9"}})
		demand := func() (lines []string) {
			for _, shape := range d.Demand("r").Shapes {
				lines = append(lines, fmt.Sprint(shape.Count, shape.Preferred, shape.OnlyPreferred))
			}
			return lines
		}
		held := []string{"2 [agent-1 agent-2 agent-3] true", "2 [] false"}
		if diff := cmp.Diff(held, demand()); diff != "" {
			t.Errorf("demand (-want +got):\n%s", diff)
		}
		if left := d.NextChange(); left != 5*time.Second {
			t.Errorf("next change in %v", left)
		}
		<-time.After(5 * time.Second)
		if diff := cmp.Diff([]string{"4 [agent-1 agent-2 agent-3] false"}, demand()); diff != "" {
			t.Errorf("demand after the wait (-want +got):\n%s", diff)
		}
		if left := d.NextChange(); left != 0 {
			t.Errorf("next change in %v", left)
		}
	})
}

func TestLongQueuesStayCheap(t *testing.T) {
	d := locality.New(locality.Config{Node: locality.Wait{Time: time.Hour}})
	const n = 10_000
	for i := range n {
		d.Add("j", task(fmt.Sprint("t", i)), at(i%50+1))
	}
	for i := range n / 50 * 49 { // agent 1 never comes, so the oldest task stays
		want(t, launched(d, offer(i%49+2, 1))[:2], "[t")
	}
	if d.Queued("j") != n/50 || d.Numbers("j").HitRate() != 1 {
		t.Errorf("%d queued, %v", d.Queued("j"), d.Numbers("j"))
	}
}

func Example() {
	d := locality.New(locality.Config{Node: locality.Wait{Time: 5 * time.Second}})
	d.Add("count words", api.Task{ID: "block-1", Resources: api.Scalars(1, 128)}, locality.Prefer{
		Hostnames: []string{"node-3", "node-7", "node-9"}, // where the block's copies are
	})
	elsewhere := api.Offer{ID: "offer-1-1", Agent: "agent-1", Hostname: "node-1", Resources: api.Scalars(4, 4096)}
	there := api.Offer{ID: "offer-1-2", Agent: "agent-7", Hostname: "node-7", Resources: api.Scalars(4, 4096)}
	for _, answer := range d.Offers([]api.Offer{elsewhere, there}) {
		fmt.Println(answer.Offers[0], "launches", len(answer.Operations))
	}
	fmt.Printf("%.0f %% local\n", 100*d.Numbers("").HitRate())
	// Output:
	// offer-1-1 launches 0
	// offer-1-2 launches 1
	// 100 % local
}
