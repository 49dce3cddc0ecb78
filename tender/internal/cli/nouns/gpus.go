package nouns

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// gpusOf says which of an agent's GPUs belong to which of its living tasks, and what keeps others from using them; ""
// if the agent has none.
func gpusOf(v *apiv1.AgentView, tasks *Listing) string {
	total := int(math.Round(v.GetTotal().GetFields()[api.GPUs].GetNumberValue()))
	if total == 0 {
		return ""
	}
	var lines []string
	given := 0
	for _, item := range tasks.Items {
		if task, is := item.Message.(*apiv1.TaskView); is && len(task.GetGpus()) > 0 {
			given += len(task.GetGpus())
			lines = append(lines, gpuList(task.GetGpus())+" of "+TaskRef(task))
		}
	}
	slices.Sort(lines)
	lines = append(lines, fmt.Sprintf("%d of %d not given to a task", max(total-given, 0), total))
	if slices.Contains(strings.Split(v.GetAttributes()["isolation"], ","), api.GPUs) {
		return strings.Join(lines, "\n")
	}
	return strings.Join(append(lines, "not enforced: tasks are told which are theirs, and nothing keeps them from the others"), "\n")
}

// gpuList returns indices of GPUs, separated by commas.
func gpuList(indices []uint32) string {
	words := make([]string, len(indices))
	for i, index := range indices {
		words[i] = strconv.FormatUint(uint64(index), 10)
	}
	return strings.Join(words, ",")
}
