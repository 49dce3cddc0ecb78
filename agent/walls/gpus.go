package walls

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/api"
)

// nvidiaShared are the device files of NVIDIA's driver that each task with one of its GPUs needs in addition.
var nvidiaShared = []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"}

// FindGPUs returns the GPUs of NVIDIA's driver, in the order of their device files. root is / except in tests.
func FindGPUs(root string) cell.GPUs {
	var found cell.GPUs
	names := nvidiaNames(filepath.Join(root, "proc/driver/nvidia/gpus"))
	paths, _ := filepath.Glob(filepath.Join(root, "dev/nvidia[0-9]*")) // the pattern is right
	slices.SortFunc(paths, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, path := range paths {
		minor := strings.TrimPrefix(filepath.Base(path), "nvidia")
		if device, err := deviceAt(path); err == nil {
			found.Each = append(found.Each, cell.GPU{ID: names[minor], Device: device})
		}
	}
	for _, name := range nvidiaShared {
		if device, err := deviceAt(filepath.Join(root, "dev", name)); err == nil && len(found.Each) > 0 {
			found.Shared = append(found.Shared, device)
		}
	}
	return found
}

// nvidiaNames returns the names that the driver gives to GPUs, by the minor numbers of their device files.
func nvidiaNames(folder string) map[string]string {
	names := map[string]string{}
	files, _ := filepath.Glob(filepath.Join(folder, "*/information")) // the pattern is right
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a GPU without a name is known by its index
		}
		var id, minor string
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			switch strings.TrimSpace(name) {
			case "GPU UUID":
				id = strings.TrimSpace(value)
			case "Device Minor":
				minor = strings.TrimSpace(value)
			}
		}
		if strings.HasPrefix(id, "GPU-") && !strings.ContainsAny(id, ",? ") { // of some GPUs the driver knows the name only once they are used
			names[minor] = id
		}
	}
	return names
}

// NameGPUs returns one GPU for each of the device files. It is for other drivers, and for trying things out.
func NameGPUs(paths []string) (cell.GPUs, error) {
	var all cell.GPUs
	var wrong []error
	for _, path := range paths {
		device, err := deviceAt(path)
		if err == nil && (!strings.HasPrefix(path, "/dev/") || filepath.Clean(path) != path) {
			err = fmt.Errorf("%s is no path in /dev", path)
		}
		if err == nil && slices.ContainsFunc(all.Each, func(gpu cell.GPU) bool { return gpu.Device.Number == device.Number }) {
			err = fmt.Errorf("%s is the same device as one before it", path)
		}
		wrong = append(wrong, err)
		all.Each = append(all.Each, cell.GPU{Device: device})
	}
	return all, errors.Join(wrong...)
}

// gpuIDs returns the driver's names of the first count GPUs. A GPU without a name has its index as its name.
func gpuIDs(gpus cell.GPUs, count int) []string {
	ids := make([]string, count)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
		if i < len(gpus.Each) && gpus.Each[i].ID != "" {
			ids[i] = gpus.Each[i].ID
		}
	}
	return ids
}

// GPUIDs returns the names of the GPUs that an agent with these resources gives to tasks, by their indices. It is an
// error if the resources have a fraction of a GPU, or more GPUs than the machine. If the machine has none the names are
// indices.
func (c Config) GPUIDs(resources api.Resources) ([]string, error) {
	amount := resources.Scalar(api.GPUs)
	count := int(amount / 1000)
	switch {
	case amount%1000 != 0:
		return nil, fmt.Errorf("%v GPUs are to be offered; they are given whole, so offer a whole number of them", amount)
	case count > gpusMax:
		return nil, fmt.Errorf("%d GPUs are to be offered, at most %d can be", count, gpusMax)
	case len(c.GPUs.Each) > 0 && count > len(c.GPUs.Each):
		return nil, fmt.Errorf("%d GPUs are to be offered, and this machine has %d", count, len(c.GPUs.Each))
	}
	return gpuIDs(c.GPUs, count), nil
}

// gpusMax is how many GPUs an agent can have, which is more than any machine has. The indices of so many fit into a
// status.
const gpusMax = 1024

// AddGPUs adds the GPUs of the config to an agent's resources, which must name none.
func (c Config) AddGPUs(resources api.Resources) api.Resources {
	if len(c.GPUs.Each) == 0 {
		return resources
	}
	count := api.Milli(min(len(c.GPUs.Each), gpusMax) * 1000)
	return resources.Plus(api.NewResources(api.Resource{Label: api.Label{Name: api.GPUs}, Scalar: count}))
}
