package cell

import (
	"errors"
	"slices"
)

// Device is a device file.
type Device struct {
	Path string `json:"path"`
	// Number is the device's type and numbers, as the kernel's controller of devices reads them: "c 195:0".
	Number string `json:"number"`
}

// GPU is a GPU that a task can have for itself.
type GPU struct {
	// ID is the driver's name for the GPU; "" if it has none.
	ID     string `json:"id,omitempty"`
	Device Device `json:"device"`
}

// GPUs are the GPUs of a machine.
type GPUs struct {
	// Each holds the GPUs, in the order of their indices.
	Each []GPU `json:"each,omitempty"`
	// Shared are the devices that each task with a GPU needs in addition to the GPU's own.
	Shared []Device `json:"shared,omitempty"`
}

// Own returns the devices of a task that has the GPUs with these indices.
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

// Others returns the devices that a task with the GPUs of these indices may not use.
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

// Deny forbids the processes of the cell, and of the cells in it, to open these devices. Those that they have open stay
// open.
func (c Cell) Deny(devices []Device) error { return c.writeDevices("devices.deny", devices) }

// Allow permits devices again that were denied. A device that a cell around this one is denied can't be permitted.
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

// addDevices adds the folder of the controller of devices to the cell that this process is in, where version 1 has that
// controller. With version 2 devices can be denied only by programs for the kernel (eBPF), which we do not write.
func (c Cell) addDevices(hierarchies []hierarchy) Cell {
	for _, h := range hierarchies {
		if h.has("devices") && c.Grade != Cgroup2 {
			c.Devices = h.own
		}
	}
	return c
}

// tryDevices takes the controller of devices out of the agent's cell if a device can't be denied by it.
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
