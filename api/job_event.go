package api

import "fmt"

// JobEvent is something that has happened to a job of a framework: a group of its tasks that people know by a name, and
// whose tasks have the label tender.job with this name. Watchers are told of it, and the masters' history keeps it.
type JobEvent struct {
	// Job is the job's name.
	Job string
	// What has happened, in a word or two of the framework's choice, such as "updated".
	What string
	// Why is a sentence for people. May be empty.
	Why string
	// Role is that of the job's tasks, one of the framework's. Who may see its tasks may see the event.
	Role Role
	// Owner is the principal for whom the job's tasks run, as in Task. May be empty.
	Owner string
	// Routine says that nobody looks for it later. What is not routine is kept for longer, and shown by itself.
	Routine bool
}

const (
	// JobEventWhatBytesMax bounds what has happened to a job. Longer ones are refused (Invalid).
	JobEventWhatBytesMax = 32
	// JobEventWhyBytesMax bounds the sentence that says why. Longer ones are refused (Invalid).
	JobEventWhyBytesMax = 1 << 10
)

// OtherJobs stands for all jobs together that are not named one by one. It is no name of a job.
const OtherJobs = "(others)"

// JobDemandMax is how many jobs a framework may name that wait for resources. More are refused (Limit).
const JobDemandMax = 100

// CheckJobDemand returns why it can't be told that so many tasks of these jobs wait, or nil.
func CheckJobDemand(wanted map[string]int64) error {
	if _, others := wanted[OtherJobs]; len(wanted) > JobDemandMax && !(others && len(wanted) == JobDemandMax+1) {
		return fmt.Errorf("%d jobs are named, at most %d are allowed", len(wanted), JobDemandMax)
	}
	for job, count := range wanted { // order: irrelevant because one that is wrong is enough
		if count < 1 {
			return fmt.Errorf("%d tasks of job %q wait; leave out jobs that wait for nothing", count, job)
		}
		if err := CheckID("job", job); err != nil && job != OtherJobs {
			return err
		}
	}
	return nil
}

// Check returns why e can't be told, or nil.
func (e JobEvent) Check() error {
	switch {
	case e.What == "" || len(e.What) > JobEventWhatBytesMax:
		return fmt.Errorf("what has happened is %q; write a word or two, at most %d bytes", e.What, JobEventWhatBytesMax)
	case len(e.Why) > JobEventWhyBytesMax:
		return fmt.Errorf("why has %d bytes, at most %d are allowed", len(e.Why), JobEventWhyBytesMax)
	}
	return CheckID("job", e.Job)
}
