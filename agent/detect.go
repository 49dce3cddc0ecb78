package agent

import (
	"path/filepath"
	"runtime"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/datafolder"
)

const megabyte = 1 << 20

// Detect returns what this machine has to offer: all processors; memory less a reserve for the system (a tenth, at
// least 512 MB, at most half); the free space of the folder's disk less a reserve (a tenth, at least 5 GB, at most
// half); and ports 31000 to 32000. In a container, processors and memory are limited to what the container may use.
func Detect(folder string) api.Resources { return detect(folder, cell.ReadAllowance("/proc")) }

func detect(folder string, allowed cell.Allowance) api.Resources {
	cpus := int64(runtime.NumCPU()) * 1000
	if allowed.CPUs > 0 {
		cpus = min(cpus, allowed.CPUs)
	}
	items := []api.Resource{
		{Label: api.Label{Name: "cpus"}, Scalar: api.Milli(cpus)},
		{Label: api.Label{Name: "ports"}, Ranges: api.Ranges{{Begin: 31000, End: 32000}}},
	}
	total := memoryBytes()
	if allowed.Memory > 0 {
		total = min(total, allowed.Memory)
	}
	if total > 0 {
		items = append(items, megabytes("mem", total, 512*megabyte))
	}
	if total := diskBytes(folder); total > 0 {
		items = append(items, megabytes("disk", total, 5<<30))
	}
	return api.NewResources(items...)
}

func megabytes(name string, total, reserveMin uint64) api.Resource {
	reserve := min(max(total/10, reserveMin), total/2)
	return api.Resource{Label: api.Label{Name: name}, Scalar: min(api.Milli((total-reserve)/megabyte)*1000, api.MilliMax)}
}

func diskBytes(folder string) uint64 {
	if folder == "" {
		return 0
	}
	for { // the folder may not exist yet
		room, err := datafolder.RoomOf(folder)
		parent := filepath.Dir(folder)
		if err == nil || parent == folder {
			return room.Free
		}
		folder = parent
	}
}
