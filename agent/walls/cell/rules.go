package cell

import (
	"encoding/json"
	"fmt"

	"github.com/tenderhq/tender/api"
)

// Rules say how the limits of a task are made from its requests.
type Rules struct {
	// PidsMax is how many processes and threads a task may have that sets no limit itself; 0: any number.
	PidsMax int64 `json:"pids_max,omitempty"`
	// HardQuota limits each task to the processors that it has requested, unless it sets a limit itself.
	HardQuota bool `json:"hard_quota,omitempty"`
}

// memoryMin is the lowest limit of memory, in bytes. Any program needs that much to start, and should not fail because
// its request was carelessly small.
const memoryMin = 32 << 20

// Limits returns what a task may use. Its share of the processors follows from the processors that it has requested,
// and its limit of memory is what it has requested, or its own limit if that is more. A task that requests no memory,
// and sets no limit, is not limited there. A task with revocable resources has the lowest share of the processors.
func (r Rules) Limits(task *api.Task) Limits {
	cpus, memory := task.Resources.Scalar("cpus"), max(task.Resources.Scalar("mem"), task.Limits.Mem)
	limits := Limits{CPUs: int64(cpus), Quota: int64(task.Limits.CPUs), Pids: task.Limits.Pids}
	if task.Resources.HasRevocable() {
		limits.CPUs = 0
	}
	if limits.Quota == 0 && r.HardQuota {
		limits.Quota = int64(cpus)
	}
	if limits.Pids == 0 {
		limits.Pids = r.PidsMax
	}
	if memory > 0 {
		limits.Memory = max(int64(memory)<<20/1000, memoryMin)
	}
	return limits
}

// Strict says what the agent's operator forbids tasks in addition.
type Strict struct {
	// ReadOnlyRoot makes the machine's files read-only for tasks with namespaces, except their sandboxes and volumes.
	// Default: tasks may write what their users may write.
	ReadOnlyRoot bool `json:"read_only,omitempty"`
	// DenyCalls denies the system calls that package calls names to tasks, and to executors that frameworks bring.
	// Where executors have control groups it needs namespaces. Default: they may make the calls that their users may
	// make.
	DenyCalls bool `json:"deny,omitempty"`
}

// Handout is what an agent tells its built-in executor: in which cell it is, and what holds for its tasks.
type Handout struct {
	// Cell is the executor's cell. It is zero where there are no control groups.
	Cell  Cell  `json:"cell"`
	Rules Rules `json:"rules"`
	// Spaces says that each task has namespaces. In these it sees nothing of the Hidden folders but what is its own.
	Spaces bool     `json:"spaces,omitempty"`
	Hidden []string `json:"hidden,omitempty"`
	// Paths says that each task has rules for files. By these it can use nothing of the Hidden folders but what is its
	// own.
	Paths bool `json:"paths,omitempty"`
	// Images says that tasks may have an image, and run in it with namespaces.
	Images bool `json:"images,omitempty"`
	Strict
	// GPUs are those of the machine.
	GPUs GPUs `json:"gpus,omitzero"`
	// Volumes is the folder that holds the volumes of tasks.
	Volumes string `json:"volumes,omitempty"`
}

// String returns the handout as JSON, for the value of an environment variable.
func (h Handout) String() string {
	text, err := json.Marshal(h)
	if err != nil {
		return "" // never happens: it is made of plain values
	}
	return string(text)
}

// ParseHandout reads what String has returned.
func ParseHandout(text string) (Handout, error) {
	var h Handout
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return h, fmt.Errorf("%.200q says nothing of a control group: %w", text, err)
	}
	return h, nil
}
