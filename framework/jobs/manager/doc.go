// Package manager is the framework that keeps jobs running: a scheduler to be given to one framework.Run, with a name
// and Standby, so that any number of instances run and one is active.
//
//	m := manager.New(manager.Config{})
//	go framework.Run(ctx, framework.Config{Name: "jobs", Standby: true, FailoverTimeout: 24 * time.Hour}, m)
//	version, err := m.SubmitJob(ctx, job)
//
// Each job has a JobMaster, a pure core that decides. The manager gives it the events and performs its effects: it
// looks for room in offers, writes the store, launches, kills and acknowledges.
//
// # What holds
//
// When a method that changes something has returned nil, the change is in the store, on a majority of the masters. A
// task is launched when its assignment is in the store, and an end is acknowledged when what it has changed is. So the
// instance that takes over has all jobs, starts nothing twice and loses nothing. An instance that stands by, or was
// taken over, says so (kind Unavailable) and does nothing.
//
// # Limits
//
// There are at most Config.JobsMax jobs, and of those that have ended Config.HistoryMost are kept for
// Config.HistoryAge. What a job takes in the store does not grow with how many of its tasks have ended.
package manager
