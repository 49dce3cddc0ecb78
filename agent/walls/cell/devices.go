package cell

import (
	"errors"
	"slices"
)

// Device is a device file.
type Device struct {
	Path string `json:"path"`
	// Number is what the kernel calls the device, as the controller of devices reads it: "c 195:0".
	Number string `json:"number"`
}

// GPU is one that a task can have for itself.
type GPU struct {
	// ID is its driver's name for it; "": it has none.
	ID     string `json:"id,omitempty"`
	Device Device `json:"device"`
}

// GPUs are those of a machine.
type GPUs struct {
	// Each is there by its index.
	Each []GPU `json:"each,omitempty"`
	// Shared are the devices that all who have a GPU need beside it.
	Shared []Device `json:"shared,omitempty"`
}

// Own are the devices of whoever has the GPUs of these indices.
func (g GPUs) Own(indices []uint32) []Device {
	var own []Device
	for _, index := range indices {
		if int(index) < len(g.Each) {
			own = append(own, g.Each[index].Device)
		}
	}
	if len(own) > 0 {
		own = append(own, g.Shared...)
	}
	return own
}

// Others are the devices that are not theirs.
func (g GPUs) Others(indices []uint32) []Device {
	own := g.Own(indices)
	var others []Device
	for _, device := range g.all() {
		if !slices.Contains(own, device) {
			others = append(others, device)
		}
	}
	return others
}

func (g GPUs) all() []Device {
	var all []Device
	for _, gpu := range g.Each {
		all = append(all, gpu.Device)
	}
	return append(all, g.Shared...)
}

// Deny keeps the processes of the cell, and of those in it, from devices. What they have open they keep.
func (c Cell) Deny(devices []Device) error { return c.writeDevices("devices.deny", devices) }

// Allow gives devices back that were denied; what is denied around the cell is not to be had in it.
func (c Cell) Allow(devices []Device) error { return c.writeDevices("devices.allow", devices) }

func (c Cell) writeDevices(file string, devices []Device) error {
	if c.Devices == "" {
		return nil
	}
	for _, device := range devices {
		if err := write(c.Devices, file, device.Number+" rwm"); err != nil {
			return err
		}
	}
	return nil
}

// addDevices adds the controller of devices to a cell at the place of others, where version 1 has one: version 2 has none
// but programs for the kernel, which we do not write.
func (c Cell) addDevices(hierarchies []hierarchy) Cell {
	for _, h := range hierarchies {
		if h.has("devices") && c.Grade != Cgroup2 {
			c.Devices = h.own
		}
	}
	return c
}

// tryDevices leaves the controller of devices out where it lets nobody be denied anything.
func (t *Tree) tryDevices() error {
	if t.Root.Devices == "" {
		return nil
	}
	alone := Cell{Grade: t.Root.Grade, Devices: t.Root.Devices}
	probe := alone.Child("probe")
	err := probe.Make()
	if err == nil {
		err = probe.Deny([]Device{{"/dev/mem", "c 1:1"}})
	}
	if err = errors.Join(err, probe.Remove()); err == nil {
		return nil
	}
	t.Root.Devices = ""
	return errors.Join(alone.Remove(), t.remember(t.Root))
}
