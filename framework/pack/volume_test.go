package pack_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/pack"
)

// dbOffer is an offer of an agent in role db.
func dbOffer(agent api.AgentID, resources string) api.Offer {
	return api.Offer{ID: "of-" + api.OfferID(agent), Agent: agent, Role: "db", Resources: api.MustParseResources(resources)}
}

// TestVolumeLife: made where there is room, used where it is, waited for, made once
// more where only a part of it was made, and given up with its home alone.
func TestVolumeLife(t *testing.T) {
	v := pack.Volume{ID: "data", Role: "db", Size: api.MilliOf(100)}
	db := task("db-1", 1, 64)
	db.Ports = map[string]uint16{"redis": 0}
	small, large := dbOffer("a1", "cpus:4;mem:512;disk:50;ports:[31000-31009]"), dbOffer("a2", "cpus:4;mem:512;disk:500;ports:[31000-31009]")
	demands := func(want ...string) {
		t.Helper()
		var got []string
		for _, shape := range v.Shapes(db) {
			got = append(got, fmt.Sprint(shape.Resources, shape.Preferred, shape.OnlyPreferred))
		}
		if !slices.Equal(got, want) {
			t.Errorf("it demands %q, want %q", got, want)
		}
	}
	const room, home = "cpus:1;disk:100;mem:64;ports:1", "cpus:1;disk(db,dynamic,volume=data):100;mem:64;ports:1"
	demands(room + " [] false")
	answer, ok := v.Launch([]api.Offer{small, large}, db)
	if !ok || v.Home != "a2" || len(answer.Operations) != 3 || answer.Offers[0] != "of-a2" {
		t.Fatalf("it is made by %v", answer)
	}
	if reserved := answer.Operations[0].Resources.String(); reserved != "cpus:1;disk:100;mem:64" {
		t.Errorf("%s is reserved", reserved)
	}
	launched := answer.Operations[2].Tasks[0]
	if want := fmt.Sprintf("cpus:1;disk(db,dynamic,volume=data):100;mem:64;ports:[%d]", launched.Ports["redis"]); launched.Resources.String() != want {
		t.Errorf("the task has %v and ports %v, want %s", launched.Resources, launched.Ports, want)
	}
	demands(home+" [a2] true", room+" [a2] true")
	for _, lost := range []api.TaskState{api.TaskDropped, api.TaskError} { // it may be there, and it may not
		v.Update(api.Status{State: lost, Agent: "a2"})
		demands(home+" [a2] true", room+" [a2] true")
	}
	v.Update(api.Status{State: api.TaskRunning, Agent: "a2"})
	demands(home + " [a2] true")
	if _, ok := v.Launch([]api.Offer{dbOffer("a3", large.Resources.String())}, db); ok {
		t.Error("it is launched away from its home")
	}
	if v.Lost("a2", false) || v.Lost("a3", true) || v.Home != "a2" {
		t.Error("it has no home although that may come back")
	}

	atHome := "cpus:3;mem:448;disk:400;ports:[31000-31009];cpus(db,dynamic):1;mem(db,dynamic):64;"
	answer, ok = v.Launch([]api.Offer{dbOffer("a3", large.Resources.String()), dbOffer("a2", atHome+"disk(db,dynamic,volume=data):100")}, db)
	if !ok || v.Home != "a2" || len(answer.Operations) != 1 || answer.Offers[0] != "of-a2" {
		t.Errorf("at its home it is launched by %v", answer)
	}
	answer, ok = v.Launch([]api.Offer{dbOffer("a2", atHome+"disk(db,dynamic):60")}, db) // the volume was not made
	if !ok || len(answer.Operations) != 3 || answer.Operations[0].Resources.String() != "disk:40" {
		t.Errorf("what is missing is made by %v", answer)
	}
	if _, ok := v.Launch([]api.Offer{dbOffer("a2", "cpus:0.5;mem:448;disk:400;ports:[31000]")}, db); ok {
		t.Error("it is launched where there is no room")
	}
	if !v.Lost("a2", true) || v.Home != "" {
		t.Error("it waits for a home that is gone for ever")
	}
	demands(room + " [] false")
}
