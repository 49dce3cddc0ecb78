package pack_test

import (
	"fmt"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/pack"
)

func show(answers []api.Answer) { fmt.Println(strings.Join(placed(answers), "; ")) }

// The zero Options put each task into the first offer with room.
func ExamplePack_firstFit() {
	offers := []api.Offer{offer("a1", 4, 1024, "r1"), offer("a2", 1, 1024, "r2")}
	answers, _ := pack.Pack(offers, []api.Task{task("t1", 1, 64), task("t2", 1, 64)}, pack.Options{})
	show(answers)
	// Output: offer-a1: t1 t2
}

// Best fit keeps the large offer whole for a large task.
func ExampleBestFit() {
	offers := []api.Offer{offer("a1", 4, 1024, "r1"), offer("a2", 1, 1024, "r2")}
	answers, _ := pack.Pack(offers, []api.Task{task("small", 1, 512), task("large", 4, 512)}, pack.Options{Rank: pack.BestFit})
	show(answers)
	// Output: offer-a1: large; offer-a2: small
}

// Spread keeps tasks even over racks, also from one call to the next.
func ExampleSpread() {
	racks := pack.NewSpread(api.ByAttribute("rack"))
	offers := []api.Offer{offer("a1", 4, 1024, "r1"), offer("a2", 4, 1024, "r1"), offer("a3", 4, 1024, "r2")}
	tasks := []api.Task{task("t1", 1, 64), task("t2", 1, 64), task("t3", 1, 64), task("t4", 1, 64)}
	answers, _ := pack.Pack(offers, tasks, pack.Options{Rank: racks.Rank, Put: racks.Put})
	show(answers)
	// Output: offer-a1: t1 t3; offer-a3: t2 t4
}

// Anti-affinity keeps two tasks from running on one agent.
func ExampleSpread_AtMost() {
	agents := pack.NewSpread(api.ByAgent)
	offers := []api.Offer{offer("a1", 4, 1024, "r1"), offer("a2", 4, 1024, "r1")}
	tasks := []api.Task{task("t1", 1, 64), task("t2", 1, 64), task("t3", 1, 64)}
	answers, left := pack.Pack(offers, tasks, pack.Options{Allow: agents.AtMost(1), Put: agents.Put})
	show(answers)
	fmt.Println("no room:", left[0].ID)
	// Output:
	// offer-a1: t1; offer-a2: t2
	// no room: t3
}

// Ports are taken out of the ranges of the offer: those that the task names and leaves at 0.
func ExampleBin_Put() {
	resources := api.MustParseResources("cpus:1;mem:64;ports:[31000-31001]")
	bin := pack.Bins([]api.Offer{{ID: "offer-1-1", Resources: resources}})[0]
	web := task("web", 1, 64)
	web.Ports = map[string]uint16{"http": 0}
	fmt.Println(bin.Put(web), bin.Tasks[0].Ports["http"], bin.Left)
	// Output: true 31001 ports:[31000]
}

// A volume has a home: the answer that makes it also reserves room for its task there. From then on nothing else is
// asked for.
func ExampleVolume() {
	resources := api.MustParseResources("cpus:4;mem:1024;disk:1000")
	offer := api.Offer{ID: "offer-1-1", Agent: "agent-1", Role: "db", Resources: resources}
	volume := pack.Volume{ID: "data", Role: "db", Size: api.MilliOf(100)}
	answer, _ := volume.Launch([]api.Offer{offer}, task("db-1", 1, 64))
	for _, operation := range answer.Operations {
		for _, launched := range operation.Tasks {
			fmt.Println("launch", launched.Resources)
		}
	}
	fmt.Println("home", volume.Home, "demands", volume.Shapes(task("db-2", 1, 64))[0].Preferred)
	// Output:
	// launch cpus:1;disk(db,dynamic,volume=data):100;mem:64
	// home agent-1 demands [agent-1]
}
