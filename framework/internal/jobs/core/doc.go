// Package core decides about one job: a [JobMaster] makes its plan, generates its tasks, says which of them wait for an
// agent, takes assignments, and settles what becomes of the tasks. The manager around it, package manager, owns the
// clock, the store, the session with the masters and the offers.
//
// It is a value without clock, goroutine, lock, I/O, randomness or closure: [JobMaster.Step] takes an event with its
// time and returns effects. The same events give the same effects, and a clone behaves alike.
//
// # What must hold
//
//   - A task's ID is used once. It holds the job's name and its run, the sub-job, the index, and the number of the
//     attempt, which is in the store before the task is dispatched.
//   - Of an index at most one attempt is wanted at a time. Another copy runs only while its agent is taken for dead,
//     or until a kill has ended it.
//   - The records in the store are enough to continue: a JobMaster that is made from its records ([Load]) starts
//     nothing that runs already, and does nothing again that has ended.
//
// An effect waits until all [Save] effects before it are in the store. Among themselves those may be written in any
// order, and a later one of the same key replaces all before it.
package core
