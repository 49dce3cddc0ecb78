// Package frameworktest runs a whole cluster inside a test, in virtual time: real masters with real
// Raft, real agents and the real SDK over a network in memory; only the processes of tasks are played.
//
//	func TestBatch(t *testing.T) {
//		frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 5}, func(c *frameworktest.Handle) {
//			batch := c.Start(framework.Config{Name: "batch"}, newBatch(100))
//			c.AwaitRunning(10)
//			c.Leader().Kill()
//			batch.Await()
//		})
//	}
//
// The story runs in a testing/synctest bubble: the clock stands still while anybody works and jumps when
// all wait, so that hours pass in milliseconds. It starts at midnight UTC, 2000-01-01. When the story
// returns, everything is ended, and the test fails if a promise of the cluster was broken meanwhile:
// a task that started twice, a status that does not follow from the one before, an agent oversold.
//
// [Handle.Chaos] carries out a plan of faults that [NewPlan] draws from a seed: masters, agents, executors
// and schedulers killed, cut off, rebooted. Print the plan when the test fails. The seed fixes the
// faults, not the order in which goroutines run, so a rare failure may need some tries to come again.
//
// What a scheduler or executor may not do in a bubble: open real sockets or wait for a process (the clock
// stands still meanwhile), call T.Run, T.Parallel or T.Deadline, or leave a goroutine behind. Files are fine.
package frameworktest
