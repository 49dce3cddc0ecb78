// Package reserving computes the effect of operations on resources: they move between plain, reserved for a role, and
// volume, in the answered offers and on their agent alike. (Protocol rule R26.)
package reserving

import (
	"fmt"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/view"
)

// Conversion holds what is left of the offers and what is reserved on the agent. Each operation changes both.
type Conversion struct {
	role     api.Role
	Left     api.Resources // what is left of the offers
	Reserved api.Resources // what is reserved on the agent

	orphans   map[api.VolumeID]*Orphan      // the agent's orphans; read only
	Destroyed map[api.VolumeID]api.Resource // volumes that were destroyed by these operations
}

// New begins with what is left of offers in the role and what is reserved on their agent. The orphans are only read.
func New(role api.Role, left, reserved api.Resources, orphans map[api.VolumeID]*Orphan) *Conversion {
	return &Conversion{role: role, Left: left, Reserved: reserved, orphans: orphans, Destroyed: make(map[api.VolumeID]api.Resource)}
}

func (v *Conversion) label(name, tag string, volume api.VolumeID) api.Label {
	return api.Label{Name: name, Reserved: v.role, Dynamic: true, Volume: volume, Tag: tag}
}

// Apply does one operation. If that is not possible it returns the reason and changes nothing.
func (v *Conversion) Apply(operation api.Operation) error {
	switch operation.Kind {
	case api.OpReserve:
		return v.reserve(operation.Resources, operation.Tag, false)
	case api.OpUnreserve:
		return v.reserve(operation.Resources, operation.Tag, true)
	case api.OpCreate:
		return v.create(operation.Volume, operation.Size, operation.Tag)
	case api.OpDestroy:
		return v.destroy(operation.Volume)
	}
	return fmt.Errorf("there is no operation %v", operation.Kind)
}

// reserve reserves plain resources for the role; with back, it makes reserved resources plain again.
func (v *Conversion) reserve(wanted api.Resources, tag string, back bool) error {
	if err := wanted.Check(); err != nil {
		return err
	}
	free := wanted.Plain()
	items := slices.Clone(free.Items())
	for i := range items {
		items[i].Label = v.label(items[i].Name, tag, "")
	}
	ours := api.NewResources(items...)
	if err := ours.Check(); err != nil {
		return err
	}
	if free.IsZero() {
		return fmt.Errorf("it names no resources")
	}
	if back {
		if !v.Left.Contains(ours) {
			return v.notFree(ours)
		}
		return v.exchange(ours, free, ours, api.Resources{})
	}
	return v.exchange(free, ours, api.Resources{}, ours)
}

// notFree says why reserved resources can't be unreserved.
func (v *Conversion) notFree(wanted api.Resources) error {
	for _, item := range wanted.Without(v.Left).Items() {
		static := api.Label{Name: item.Name, Reserved: v.role}
		if _, is := v.Left.Find(static); is {
			return fmt.Errorf("%s is reserved for role %s by the agent itself, by its --resources: it changes with a restart of the agent", item.Name, v.role)
		}
	}
	free := v.Left.Filter(func(l api.Label) bool { return l.Reserved == v.role && l.Dynamic && l.Volume == "" })
	if free.IsZero() {
		return fmt.Errorf("nothing that is reserved for role %s is free; what tasks use or volumes hold stays reserved", v.role)
	}
	return fmt.Errorf("of what is reserved for role %s only %v is free; what tasks use or volumes hold stays reserved", v.role, free)
}

// create turns disk that is reserved for the role into a volume.
func (v *Conversion) create(id api.VolumeID, size api.Milli, tag string) error {
	if err := api.CheckID("volume", string(id)); err != nil {
		return err
	}
	if size <= 0 || size > api.MilliMax {
		return fmt.Errorf("a volume of %v MB can't be made", size)
	}
	for _, item := range v.Reserved.Items() {
		if item.Volume == id {
			return fmt.Errorf("the agent has a volume %s already", id)
		}
	}
	if o := v.orphans[id]; o != nil {
		return o.InTheWay()
	}
	if _, before := v.Destroyed[id]; before {
		return (&Orphan{OrphanedVolume: view.OrphanedVolume{Volume: v.Destroyed[id], Why: "it is being destroyed"}, Destroying: true}).InTheWay()
	}
	disk := api.NewResources(api.Resource{Label: v.label("disk", tag, ""), Scalar: size})
	volume := api.NewResources(api.Resource{Label: v.label("disk", tag, id), Scalar: size})
	if !v.Left.Contains(disk) {
		return fmt.Errorf("a volume is made of disk that is reserved for its role, and %v is left; reserve disk:%v for role %s first", v.Left, size, v.role)
	}
	return v.exchange(disk, volume, disk, volume)
}

// destroy turns a volume back into reserved disk.
func (v *Conversion) destroy(id api.VolumeID) error {
	volume := v.Left.Filter(func(l api.Label) bool { return l == v.label("disk", l.Tag, id) })
	if volume.IsZero() || id == "" {
		return fmt.Errorf("there is no volume %q that nobody uses", id)
	}
	item := volume.Items()[0]
	disk := api.NewResources(api.Resource{Label: v.label("disk", item.Tag, ""), Scalar: item.Scalar})
	v.Destroyed[id] = item
	return v.exchange(volume, disk, volume, disk)
}

// exchange replaces give by get in the offers, and unreserve by reserve on the agent. It does both or neither.
func (v *Conversion) exchange(give, get, unreserve, reserve api.Resources) error {
	left, ok := v.Left.Minus(give)
	if !ok {
		return fmt.Errorf("it needs %v, but only %v is left", give, v.Left)
	}
	reserved, ok := v.Reserved.Minus(unreserve)
	if !ok {
		return fmt.Errorf("%v is not reserved on the agent", unreserve)
	}
	v.Left, v.Reserved = left.Plus(get), reserved.Plus(reserve)
	return nil
}

// Orphan is a volume that the agent holds and the registry does not know, or one that was destroyed. Until the agent says that its data is gone,
// no other volume of the same ID may be made there, because it would begin with that data.
type Orphan struct {
	view.OrphanedVolume
	Generation uint64
	Destroying bool // a Destroy operation has named it; the registry remembers that
}

// InTheWay returns the reason why no other volume of the same ID can be made.
func (o *Orphan) InTheWay() error {
	if o.Destroying {
		return fmt.Errorf("the data of an earlier volume %s is still there: %s; try again, or take another ID", o.Volume.Volume, o.Why)
	}
	return fmt.Errorf("the agent holds an orphaned volume %s; destroy it first, or take another ID", o.Volume.Volume)
}
