package pack_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/pack"
)

func offer(agent string, cpus, mem float64, rack string) api.Offer {
	return api.Offer{
		ID: api.OfferID("offer-" + agent), Agent: api.AgentID(agent), Resources: api.Scalars(cpus, mem),
		Attributes: map[string]string{"rack": rack},
	}
}

func task(id string, cpus, mem float64) api.Task {
	return api.Task{ID: api.TaskID(id), Resources: api.Scalars(cpus, mem)}
}

// placed says which tasks are placed where: "a1: t1 t2".
func placed(answers []api.Answer) []string {
	var lines []string
	for _, answer := range answers {
		line := string(answer.Offers[0]) + ":"
		for _, task := range answer.Operations[0].Tasks {
			line += " " + string(task.ID)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestStrategies(t *testing.T) {
	offers := []api.Offer{offer("a1", 8, 8192, "r1"), offer("a2", 2, 2048, "r1"), offer("a3", 4, 4096, "r2")}
	tasks := []api.Task{task("t1", 2, 2048), task("t2", 2, 2048), task("t3", 2, 2048)}
	racks := pack.NewSpread(api.ByAttribute("rack"))
	one := pack.NewSpread(api.ByAgent)
	for _, test := range []struct {
		name    string
		options pack.Options
		want    []string
	}{
		{"first fit", pack.Options{}, []string{"offer-a1: t1 t2 t3"}},
		{"best fit", pack.Options{Rank: pack.BestFit}, []string{"offer-a2: t1", "offer-a3: t2 t3"}},
		{"worst fit", pack.Options{Rank: pack.WorstFit}, []string{"offer-a1: t1 t2", "offer-a3: t3"}},
		{"spread over racks", pack.Options{Rank: racks.Rank, Put: racks.Put}, []string{"offer-a1: t1 t3", "offer-a3: t2"}},
		{"one an agent", pack.Options{Allow: one.AtMost(1), Put: one.Put}, []string{"offer-a1: t1", "offer-a2: t2", "offer-a3: t3"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			answers, left := pack.Pack(offers, tasks, test.options)
			if diff := cmp.Diff(test.want, placed(answers)); diff != "" || len(left) > 0 {
				t.Errorf("left %v, placed (-want +got):\n%s", left, diff)
			}
		})
	}
}

func TestNothingIsOversold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var offers []api.Offer
		for i := range rapid.IntRange(0, 5).Draw(t, "offers") {
			o := offer(fmt.Sprint("a", i), float64(rapid.IntRange(1, 8).Draw(t, "cpus")), 1024, "r")
			o.Resources = o.Resources.Plus(api.NewResources(api.Resource{
				Label: api.Label{Name: "ports"}, Ranges: api.Ranges{{Begin: 31000, End: 31003}},
			}))
			offers = append(offers, o)
		}
		var tasks []api.Task
		executor := &api.Executor{ID: "x", Resources: api.Scalars(0.5, 32)}
		for i := range rapid.IntRange(0, 20).Draw(t, "tasks") {
			next := task(fmt.Sprint("t", i), float64(rapid.IntRange(1, 4).Draw(t, "need")), 128)
			if rapid.Bool().Draw(t, "executor") {
				next.Executor = executor
			}
			tasks = append(tasks, next)
		}
		answers, left := pack.Pack(offers, tasks, pack.Options{Rank: pack.BestFit, Ports: []string{"http"}})
		count := len(left)
		for _, answer := range answers {
			var used api.Resources
			ports := map[uint16]bool{}
			started := false
			for _, task := range answer.Operations[0].Tasks {
				count++
				used = used.Plus(task.Resources)
				if task.Executor != nil && !started {
					started = true
					used = used.Plus(task.Executor.Resources)
				}
				if port := task.Ports["http"]; port == 0 || ports[port] {
					t.Fatalf("%s has port %d", task.ID, port)
				} else {
					ports[port] = true
				}
			}
			for _, o := range offers {
				if o.ID == answer.Offers[0] && !o.Resources.Contains(used) {
					t.Fatalf("%s holds %v, %v are used", o.ID, o.Resources, used)
				}
			}
		}
		if count != len(tasks) {
			t.Fatalf("%d tasks became %d", len(tasks), count)
		}
	})
}

func TestSpreadForgetsWhatEnded(t *testing.T) {
	spread := pack.NewSpread(api.ByZone)
	o := api.Offer{Region: "eu", Zone: "a", Resources: api.Scalars(1, 1)}
	bin := pack.Bins([]api.Offer{o})[0]
	spread.Put(bin, task("t1", 1, 1))
	spread.Put(bin, task("t1", 1, 1))
	if got := spread.Count("eu/a"); got != 1 {
		t.Errorf("one task counts %d", got)
	}
	spread.Ended("t1")
	spread.Ended("t1")
	if got := spread.Count("eu/a"); got != 0 {
		t.Errorf("no task counts %d", got)
	}
}

func TestPortsLeaveOutWhatIsNoPort(t *testing.T) {
	resources := api.NewResources(
		api.Resource{Label: api.Label{Name: "ports"}, Ranges: api.Ranges{{Begin: 0, End: 1}, {Begin: 65535, End: 70000}}},
		api.Resource{Label: api.Label{Name: "ports", Revocable: true}, Ranges: api.Ranges{{Begin: 31000, End: 31009}}},
	)
	bin := pack.Bins([]api.Offer{{ID: "offer-1-1", Resources: resources}})[0]
	if bin.PutWithPorts(api.Task{ID: "t"}, "a", "b", "c") {
		t.Error("three ports out of two")
	}
	if !bin.PutWithPorts(api.Task{ID: "t"}, "a", "b") {
		t.Fatal("two ports are none of two")
	}
	ports := slices.Sorted(maps.Values(bin.Tasks[0].Ports))
	if diff := cmp.Diff([]uint16{1, 65535}, ports); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A task that is tried again in another offer of the same ports is told other ones, because the former may be somebody
// else's. Within one offer no port is given twice, whether a task asked for its number or not.
func TestPortsAreOtherOnesInTheNextOffer(t *testing.T) {
	resources, err := api.ParseResources("cpus:4;ports:[31000-31099]")
	if err != nil {
		t.Fatal(err)
	}
	again := map[uint16]int{}
	for i := range 100 {
		bin := pack.Bins([]api.Offer{{ID: api.OfferID(fmt.Sprint("offer-1-", i)), Resources: resources}})[0]
		fixed := api.Task{ID: "fixed", Ports: map[string]uint16{"a": 31050, "b": 0}, Resources: api.NewResources(
			api.Resource{Label: api.Label{Name: "ports"}, Ranges: api.NewRanges(api.Range{Begin: 31050, End: 31050})})}
		if !bin.Put(fixed) || !bin.PutWithPorts(task("t", 1, 0), "http") {
			t.Fatal("there is no room")
		}
		a, b, http := bin.Tasks[0].Ports["a"], bin.Tasks[0].Ports["b"], bin.Tasks[1].Ports["http"]
		if a != 31050 || b == a || http == a || http == b {
			t.Fatalf("ports %d, %d and %d", a, b, http)
		}
		again[http]++
	}
	for port, times := range again {
		if times > 10 {
			t.Errorf("%d of 100 offers gave port %d", times, port)
		}
	}
}

func ExamplePack() {
	offers := []api.Offer{
		{ID: "offer-1-1", Agent: "agent-1", Resources: api.Scalars(2, 1024)},
		{ID: "offer-1-2", Agent: "agent-2", Resources: api.Scalars(1, 1024)},
	}
	tasks := []api.Task{task("big", 2, 512), task("small", 1, 512), task("late", 1, 512)}
	answers, left := pack.Pack(offers, tasks, pack.Options{Rank: pack.BestFit})
	for _, answer := range answers {
		fmt.Println(answer.Offers[0], "runs", answer.Operations[0].Tasks[0].ID)
	}
	fmt.Println("no room:", left[0].ID)
	// Output:
	// offer-1-1 runs big
	// offer-1-2 runs small
	// no room: late
}

// Tasks take revocable resources only when that is asked for.
func TestRevocable(t *testing.T) {
	firm, spare := api.Scalars(1, 128), api.Scalars(2, 256).AsRevocable()
	offers := []api.Offer{{ID: "o1", Agent: "a1", Resources: firm.Plus(spare)}}
	tasks := []api.Task{{ID: "t1", Resources: api.Scalars(1, 128)}, {ID: "t2", Resources: api.Scalars(1, 128)}}
	answers, left := pack.Pack(offers, tasks, pack.Options{})
	if len(answers) != 1 || len(left) != 1 || !answers[0].Operations[0].Tasks[0].Resources.Equal(firm) {
		t.Errorf("firm: %+v, left %+v", answers, left)
	}
	answers, left = pack.Pack(offers, tasks, pack.Options{Revocable: true})
	if len(answers) != 1 || len(left) != 0 {
		t.Fatalf("revocable: %+v, left %+v", answers, left)
	}
	for _, task := range answers[0].Operations[0].Tasks {
		if !task.Resources.Firm().IsZero() {
			t.Errorf("%s takes %v", task.ID, task.Resources)
		}
	}
}

// A framework whose Config says Revocable is offered what other tasks leave unused, beside
// what is free.
func ExampleOptions_revocable() {
	free := api.Scalars(0.5, 256)
	unused := api.Scalars(2, 512).AsRevocable()
	offers := []api.Offer{{ID: "o1", Agent: "a1", Resources: free.Plus(unused)}}
	fmt.Println("firm:", offers[0].Resources.Firm())
	fmt.Println("revocable:", offers[0].Resources.Revocable())
	guest := api.Task{ID: "guest", Resources: api.Scalars(1, 128)}
	answers, _ := pack.Pack(offers, []api.Task{guest}, pack.Options{Revocable: true})
	for _, task := range answers[0].Operations[0].Tasks {
		fmt.Println(task.ID, "takes", task.Resources)
	}
	// Output:
	// firm: cpus:0.5;mem:256
	// revocable: cpus(revocable):2;mem(revocable):512
	// guest takes cpus(revocable):1;mem(revocable):128
}

func ExampleBin_PutWithPorts() {
	resources := api.MustParseResources("cpus:4;mem:1024;ports:[31000-31009]")
	bin := pack.Bins([]api.Offer{{ID: "offer-1-1", Resources: resources}})[0]
	bin.PutWithPorts(task("web", 1, 256), "http", "admin")
	fmt.Println(bin.Tasks[0].Ports["http"], bin.Tasks[0].Ports["admin"])
	fmt.Println(bin.Left)
	// Output:
	// 31001 31002
	// cpus:3;mem:768;ports:[31000,31003-31009]
}
