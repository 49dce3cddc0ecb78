package plan

import (
	"maps"
	"slices"
	"time"
)

// Work is what a job has done for one stage. It does not include what other jobs did for the stage before and is still
// there.
type Work struct {
	Shuffle ShuffleID // 0: the result
	// Done, Running and Failed count attempts of the stage's tasks. Attempts that ended with their executor are in none
	// of them.
	Done, Running, Failed int
	// Again counts the tasks that were done once more because an earlier output was lost.
	Again int
	// Began is when the first attempt was started, Ended when the last one was done.
	Began, Ended time.Duration
	begun        bool
}

func (j *Job) workOf(task Task) *Work {
	w := j.work[task.Shuffle]
	if w == nil {
		w = &Work{Shuffle: task.Shuffle}
		j.work[task.Shuffle] = w
	}
	return w
}

// Work returns the stages for which the job has done something, in the order of their shuffles; the result is last.
func (j *Job) Work() (list []Work) {
	for _, id := range slices.Sorted(maps.Keys(j.work)) {
		one := *j.work[id]
		for task, attempts := range j.attempts { // order: irrelevant because they are added up
			if task.Shuffle == id {
				one.Running += len(attempts)
			}
		}
		list = append(list, one)
	}
	if len(list) > 0 && list[0].Shuffle == 0 {
		list = append(list[1:], list[0])
	}
	return list
}
