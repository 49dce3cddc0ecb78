// Package jobs says what a job is: work that people hand to the cluster and that outlives the command line and the
// machine from which they did. It holds only nouns, as plain values that can be checked, compared and written as JSON
// or TOML. The framework that keeps jobs running is package manager below this one.
//
//   - A [Job] has a name, a [Type] and what its tasks run. The type says what becomes of them: a batch is done when
//     so many have ended well, a service is kept running.
//   - Its [Plan] is the list of its [SubJob]s: a sub-job is a group of equal tasks, told apart by their index.
//   - An [Assignment] is one task of a sub-job and the agent that it was given to. It is in the framework's store
//     before the agent is told of it.
//   - Each change of a job is a [Version]. Older ones are kept, so that a job can be rolled back to them.
//   - [Status] shows how far all of this is, and why some of it waits.
//
// # What a job is promised
//
// What the manager has confirmed holds: a job that was submitted runs to its end whatever fails meanwhile, be it the
// manager, an agent or the leading master. A task is never started twice for the same attempt. A new attempt of an
// index begins only when the one before has ended, or when its agent has been silent for longer than the job allows
// ([Task.LostAfter]); if that agent comes back, the older copy is ended.
package jobs
