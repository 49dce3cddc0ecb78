package pack

import (
	"slices"

	"github.com/tenderhq/tender/api"
)

// Volume is the life of a persistent volume and of the one task that uses it: a database, for example. It is made, with
// a reservation for the task beside it, on the first agent that has room. That agent is then its home: the task is
// started there again and again, because its data is there and nowhere else. While the home is drained, rebooted or
// silent, the task waits. Only when the home was given up for ever, and the data with it, a new home is chosen: the
// scheduler is told so by AgentLost (AgentWatcher of package framework), and passes that on to Lost.
//
// A Volume is a value without a connection, and its methods must not be called at the same time. Keep it in the
// framework's store, and write it there before you send an answer that has changed it: who forgets where the data is
// makes an empty volume elsewhere.
type Volume struct {
	ID api.VolumeID
	// Role is the role that the volume and what is reserved beside it are reserved for.
	Role api.Role
	// Size is the size of the volume, of disk, in MB.
	Size api.Milli
	// Home is the agent that has the volume; "": none has yet.
	Home api.AgentID
	// Made says that the volume is at its home for sure. Until then it may be that the answer that makes it was lost.
	Made bool
}

// Shapes returns what to demand while the task waits: room for the task and its volume anywhere, or room for the task
// at the home; if it is not sure that the volume is there, also room to make it there.
func (v *Volume) Shapes(task api.Task) []api.Shape {
	room := api.Shape{Resources: Ask(task).Plus(v.disk(api.Label{Name: "disk"})), Count: 1}
	if v.Home == "" {
		return []api.Shape{room}
	}
	room.Preferred, room.OnlyPreferred = []api.AgentID{v.Home}, true
	home := room
	home.Resources = Ask(task).Plus(v.disk(v.label()))
	if v.Made {
		return []api.Shape{home}
	}
	return []api.Shape{home, room}
}

// Launch returns the answer that launches the task with its volume, which is in the task's sandbox as volumes/ID; false:
// none of the offers is of its home, or none has room. The answer reserves and makes what is not there yet, and sets
// Home. Call it only while no task uses the volume. Operations that fail make the task end DROPPED or ERROR; the next
// call makes up for what is missing.
func (v *Volume) Launch(offers []api.Offer, task api.Task) (api.Answer, bool) {
	for _, offer := range offers {
		if offer.Role != v.Role || v.Home != "" && v.Home != offer.Agent {
			continue
		}
		answer, ok := v.use(offer, task)
		if !ok {
			answer, ok = v.make(offer, task)
		}
		if ok {
			v.Home = offer.Agent
			return answer, true
		}
	}
	return api.Answer{}, false
}

// use launches the task where the volume is offered.
func (v *Volume) use(offer api.Offer, task api.Task) (api.Answer, bool) {
	there := offer.Resources.Filter(func(l api.Label) bool { return l == v.label() })
	bin := Bin{Offer: offer, Left: offer.Resources}
	task.Resources = task.Resources.Plus(there)
	if there.IsZero() || !bin.Put(task) {
		return api.Answer{}, false
	}
	return bin.Answer()
}

// make reserves what the task and its volume need, as far as it is not reserved yet, makes the volume, and launches the
// task.
func (v *Volume) make(offer api.Offer, task api.Task) (api.Answer, bool) {
	bin := Bin{Offer: offer, Left: offer.Resources}
	plain := task
	plain.Resources = task.Resources.Plus(v.disk(api.Label{Name: "disk"}))
	if !bin.Fits(plain) || !bin.Put(task) {
		return api.Answer{}, false
	}
	var missing []api.Resource
	for _, item := range Ask(plain).Items() {
		reserved := offer.Resources.Filter(func(l api.Label) bool { return l == api.Label{Name: item.Name, Reserved: v.Role, Dynamic: true} })
		if item.Scalar -= min(item.Scalar, reserved.Scalar(item.Name)); item.Scalar > 0 && item.Name != "ports" {
			missing = append(missing, item)
		}
	}
	task = bin.Tasks[0] // with its ports
	task.Resources = task.Resources.Plus(v.disk(v.label()))
	operations := []api.Operation{
		{Kind: api.OpReserve, Resources: api.NewResources(missing...)},
		{Kind: api.OpCreate, Volume: v.ID, Size: v.Size},
		{Kind: api.OpLaunch, Tasks: []api.Task{task}},
	}
	if len(missing) == 0 {
		operations = slices.Delete(operations, 0, 1)
	}
	return api.Answer{Offers: []api.OfferID{offer.ID}, Operations: operations}, true
}

// Update takes in a status of the task: one that its agent has taken on has the volume.
func (v *Volume) Update(status api.Status) {
	if status.Agent == v.Home && status.State != api.TaskDropped && status.State != api.TaskError {
		v.Made = true
	}
}

// Lost takes in that an agent was lost, and reports whether the volume's home is gone for ever. Then the data is gone
// too, and the next Launch makes an empty volume elsewhere; so state the new Shapes. A home that may come back is waited
// for. Nothing need be written to the store: who states the Shapes of a home that is gone is told of it again.
func (v *Volume) Lost(agent api.AgentID, gone bool) (homeless bool) {
	if !gone || agent != v.Home {
		return false
	}
	v.Home, v.Made = "", false
	return true
}

func (v *Volume) label() api.Label {
	return api.Label{Name: "disk", Reserved: v.Role, Dynamic: true, Volume: v.ID}
}

func (v *Volume) disk(label api.Label) api.Resources {
	return api.NewResources(api.Resource{Label: label, Scalar: v.Size})
}
