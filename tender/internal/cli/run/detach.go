package run

import (
	"fmt"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/words"
)

// A run that detaches leaves when all of its tasks are on an agent. Its framework stays without a scheduler for its
// failover time. Then the masters remove it with its tasks.

// placed says whether each instance is, or was, on an agent. Callers hold mu.
func (j *job) placed() bool {
	if j.fresh < j.config.Instances || len(j.again) > 0 {
		return false
	}
	for _, a := range j.live { // order: irrelevant because one is enough
		if a.State == api.TaskStaging || a.State == 0 {
			return false
		}
	}
	return true
}

// detachIfPlaced ends a run that waits only for that. Callers hold mu.
func (j *job) detachIfPlaced() {
	if j.config.Detach <= 0 || j.killing || !j.placed() {
		return
	}
	select {
	case <-j.away:
	default:
		close(j.away)
	}
}

// tellTasks names the tasks that go on, for programs and people.
func (r *runner) tellTasks() error {
	ids := r.job.liveTasks()
	for _, id := range ids {
		if _, err := fmt.Fprintln(r.config.Stdout, r.job.ref(id)); err != nil {
			return err
		}
	}
	framework := r.job.ref("").Framework
	r.config.Say("%s of %s may live on for %v; 'tender attach %s' shows what they print, 'tender teardown %s' ends them",
		words.Count(len(ids), "task"), framework, r.config.Detach, framework, framework)
	return nil
}

func (j *job) detached() bool {
	select {
	case <-j.away:
		return true
	default:
		return false
	}
}

// teardown removes a framework that would stay although none of its tasks is left.
func (j *job) teardown() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.config.Detach == 0 || j.client == nil {
		return nil
	}
	return j.client.Teardown()
}

func (j *job) liveTasks() []api.TaskID {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(sortedIDs(j.live))
}

// labelsOf returns the labels of the run's framework. That of a run that detaches says that nobody will come back to it.
func labelsOf(config Config) map[string]string {
	if config.Detach == 0 {
		return nil
	}
	return map[string]string{api.DetachedLabel: "by tender run --detach"}
}
