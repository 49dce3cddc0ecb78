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
// # A story
//
// [Run] builds what [Cluster] says and hands the test a [Handle]. The story starts schedulers with
// [Handle.Start], lets time pass with [Handle.Advance], waits for what should come by itself with the
// Await methods, and says what must be true with the Expect methods. When it returns, everything is
// ended, and the test fails if a promise of the cluster was broken meanwhile: a task that started
// twice, a status that does not follow from the one before, an agent oversold, a task that was
// launched and never settled. [Example] tells a story in an Example function, which has no *testing.T.
//
// The story runs in a testing/synctest bubble: the clock stands still while anybody works and jumps when
// all wait, so that hours pass in milliseconds. It starts at midnight UTC, 2000-01-01.
//
// # Tasks
//
// By default commands are played: "sleep 5" runs for five seconds of virtual time, "exit 3" fails,
// anything else succeeds at once (see [PlayCommand]). Cluster.Script plays them otherwise, and
// Cluster.Executors runs real executor code, the function that executor.Run takes. From within the
// story, [Framework.EndTask] has one task end now, with any exit code, and [Framework.Use] says what
// it really uses.
//
// # What goes wrong
//
//   - Processes die: [Master.Kill], [Agent.Kill], [Agent.KillExecutor], [Framework.Kill]; the Start methods
//     and [Framework.Again] bring them back with their disks.
//   - Machines die: [Agent.Reboot]; [Agent.Lose] for good.
//   - The network: Isolate and Rejoin for one host, [Handle.Partition] and [Handle.Join] between some.
//     What is sent into a cut waits, as packets that are sent again do.
//   - Offers and resources are taken away: [Agent.RescindOffers], [Handle.Preempt].
//   - Operators act: [Agent.Drain], [Agent.Maintain], [Agent.Deactivate], [Agent.Reactivate], [Agent.MarkGone],
//     [Handle.Limit], [Handle.Guarantee], [Handle.Priority], [Handle.SetRole], [Handle.KillTask]; the rest through
//     [Handle.Operator].
//   - Secrets are set and removed, [Handle.SetSecret], for tasks that name them; [Framework.Secrets] says what one was given.
//   - Everything at once: [Handle.Chaos] carries out a plan of faults that [NewPlan] draws from a seed. A
//     test that fails prints the plan. The seed fixes the faults, not the order in which goroutines
//     run, so a rare failure may need some tries to come again.
//
// # What it costs
//
// An hour of a thousand agents with a busy framework takes about 60 s of processor time with a Heartbeat
// of 10 s (docs/performance.md). While a story runs, garbage is collected seldom, which takes up to five times
// the memory that is in use; GOGC in the environment, or a percentage that the test has set, holds instead.
//
// # What a test may not do
//
// The scheduler, executors and the story itself are inside the bubble. Go's testing/synctest asks of them:
//
//   - No real sockets, pipes or processes: who waits for the kernel stops the clock for everybody.
//     Give what would use them a fake, or a connection from [net.Pipe]. Files are fine.
//   - No T.Run, T.Parallel or T.Deadline in the story; call [Run] within a T.Run instead. No T.Context of the
//     test around the story: [Handle.T] is the one within.
//   - No goroutine left behind: whatever the scheduler starts must end when its contexts do, or the
//     test fails with a deadlock.
//   - No channel, timer or WaitGroup made outside and used inside. Make them in the story.
//   - No waiting for a sync.Mutex over a wait for time: a locked mutex stops the clock. Channels and
//     condition variables let it go on. After five seconds of real time the callback that waits is named on stderr.
//
// A scheduler that does not return from a callback is named, with the place where it waits, when something that was
// awaited has not come; and one that uses a task's ID twice, before all that follows from it.
//
// Which goroutine runs first is left to Go's scheduler, as in life; run with -race, and -count to see more.
package frameworktest
