// Package commandexecutor is the built-in executor, `tender executor`: it runs tasks
// that are commands. One process serves all such tasks of a framework on an agent and
// outlives the agent's restart.
//
// Each task is a child in its own process group, with its sandbox as working folder,
// and files stdout and stderr there. Its environment is what the task asks for and
// TENDER_TASK_*; PATH is [DefaultPath] when the task sets none, so that programs are
// found. A task is RUNNING once its program was executed, FINISHED when it exits with
// 0 and FAILED otherwise, but never before every process of its group is gone: what
// the command leaves behind is killed with it (R11).
//
// Where the agent has told of control groups, each task is in one of its own (package agent/walls/cell) from its first
// instruction on: it may use what it has asked for, ends with all that it has started, and its end is told when nothing
// of it is left (R41). MEMORY_LIMIT and PIDS_LIMIT say that it has failed for a limit. Groups in which nothing is left, and
// of which nothing is known that a new one would not show, serve next tasks with the same limits.
//
// Where the agent says so, each of them also has namespaces of its own (package agent/walls/spaces). Then the process that
// stands for it here and for the agent is the first one in there, a helper of ours, and how the program has ended is what
// that tells.
//
// Where the agent says so, each of them also has rules of the kernel for files (package agent/walls/paths): the thread that
// starts it takes them on before, and ends after.
//
// Should this process die, its tasks must die too, and the agent does that. No journal
// is needed for it: every child stays in the session that the agent made for this
// executor, which the kernel notes at the fork itself, so nothing can be missing when
// the executor was killed at a bad moment; a file would cost each start a write and
// could be late. RUNNING names the process group and when it started as well.
//
// A task runs as the user whose its sandbox is: the agent has made it, and nobody else can give it away. So an executor
// of root starts each of its tasks as somebody else and stays out of their reach.
//
// The package starts programs and nothing else: files are fetched by the agent before.
package commandexecutor
