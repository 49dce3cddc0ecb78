package cell

import (
	"encoding/json"
	"fmt"

	"github.com/tenderhq/tender/api"
)

// Rules say how what a task asks for becomes what it may use.
type Rules struct {
	// PidsMax is for tasks that say nothing of it; 0: any number.
	PidsMax int64 `json:"pids_max,omitempty"`
	// HardQuota gives no task more of the processors than it has asked for.
	HardQuota bool `json:"hard_quota,omitempty"`
}

// memoryMin is the least memory that a limit leaves: a program of any size needs as much to start, and is not to fail
// for what it has asked in haste.
const memoryMin = 32 << 20

// Limits are what a task may use: of processors its share of what is wanted, of memory what it has asked for. One that
// asks for no memory has no limit there. What may be taken back has the lowest share.
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

// Strict is what an agent takes from tasks when it is asked to.
type Strict struct {
	// ReadOnlyRoot lets tasks with namespaces write nothing of the machine's files, but for their sandboxes and volumes.
	// Default: what their users may write.
	ReadOnlyRoot bool `json:"read_only,omitempty"`
	// DenyCalls denies tasks, and executors of frameworks' own, the calls of the kernel that package calls names. Where
	// executors have control groups it needs namespaces. Default: what their users may call.
	DenyCalls bool `json:"deny,omitempty"`
}

// Handout is what an agent tells its built-in executor: where it is, and by which rules its tasks live.
type Handout struct {
	// Cell is the zero one where there are no control groups.
	Cell  Cell  `json:"cell"`
	Rules Rules `json:"rules"`
	// Spaces says that each task has namespaces, in which nothing of the Hidden folders is seen but what is the task's.
	Spaces bool     `json:"spaces,omitempty"`
	Hidden []string `json:"hidden,omitempty"`
	// Paths says that each task has rules for files, by which it uses nothing of the Hidden folders but what is its own.
	Paths bool `json:"paths,omitempty"`
	// Images says that tasks with an image run in it, with namespaces.
	Images bool `json:"images,omitempty"`
	Strict
	// GPUs are the machine's.
	GPUs GPUs `json:"gpus,omitzero"`
	// Volumes is the folder of the volumes that tasks are shown.
	Volumes string `json:"volumes,omitempty"`
}

// String is one word for an environment.
func (h Handout) String() string {
	text, err := json.Marshal(h)
	if err != nil {
		return "" // it is made of plain values
	}
	return string(text)
}

// ParseHandout is the inverse.
func ParseHandout(text string) (Handout, error) {
	var h Handout
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return h, fmt.Errorf("%.200q says nothing of a control group: %w", text, err)
	}
	return h, nil
}
