package core

import (
	"fmt"

	"github.com/tenderhq/tender/api"
)

// GPUs are given as whole devices, by index. From its launch to its end a task has the GPUs that its record names, and
// no other task is given one of them. So a restarted agent knows which task has which GPU (R8), and nobody else has to.

// gpusAsked returns how many GPUs the task asks for.
func (t *task) gpusAsked() int { return int(t.launch.Resources.Scalar(api.GPUs) / 1000) }

// holdGPUs notes that the task has its GPUs; freeGPUs notes that they are free again.
func (s *state) holdGPUs(t *task) {
	for _, index := range t.launch.GPUs {
		s.gpus[index] = t.ref
	}
}

func (s *state) freeGPUs(t *task) {
	for _, index := range t.launch.GPUs {
		if s.gpus[index] == t.ref {
			delete(s.gpus, index)
		}
	}
}

// chooseGPUs returns the first free GPUs, at most count.
func (b *base) chooseGPUs(count int) []uint32 {
	var free []uint32
	for index := range uint32(len(b.config.GPUs)) {
		if len(free) == count {
			break
		}
		if _, taken := b.state.gpus[index]; !taken {
			free = append(free, index)
		}
	}
	return free
}

// lackOfGPUs says why tasks that are launched together can't have the GPUs that they ask for; "" if they can.
func (b *base) lackOfGPUs(tasks ...*task) string {
	asked := 0
	for _, t := range tasks {
		asked += t.gpusAsked()
	}
	free := len(b.chooseGPUs(asked))
	if free == asked {
		return ""
	}
	return fmt.Sprintf("GPUs asked for: %d; free are %d of the agent's %d", asked, free, len(b.config.GPUs))
}

// gpusOf returns the task's GPUs with the driver's names.
func (b *base) gpusOf(t *task) []api.GPU {
	var all []api.GPU
	for _, index := range t.launch.GPUs {
		gpu := api.GPU{Index: index, ID: fmt.Sprint(index)}
		if int(index) < len(b.config.GPUs) { // else the agent had more GPUs when it gave the task this one
			gpu.ID = b.config.GPUs[index]
		}
		all = append(all, gpu)
	}
	return all
}
