// Package commands is the built-in executor, `tender executor`: it runs tasks
// that are commands. One process serves all such tasks of a framework on an agent and
// outlives the agent's restart.
//
// Each task is a child in its own process group, with its sandbox as working folder,
// and files stdout and stderr there. Its environment is what the task asks for and
// TENDER_TASK_*, with PATH ([protocol.DefaultPath]), HOME and the like when the task sets none, so
// that programs are found and find what they expect. A task is RUNNING once its program was executed, FINISHED when it exits with
// 0 and FAILED otherwise, but never before every process of its group is gone: what the command leaves behind is killed
// with it. (R11)
//
// Where the agent has control groups, each task is in one of its own (package agent/walls/cell) from its first
// instruction on. It may use what it has requested, ends with all that it has started, and its end is told when nothing
// of it is left. (R41) The reasons MEMORY_LIMIT and PIDS_LIMIT say that it has failed because of a limit. A control
// group that is empty and like a new one may serve a later task with the same limits.
//
// Where the agent says so, each task also has namespaces of its own (package agent/walls/spaces). Then the process that
// stands for the task, here and for the agent, is the first one in these namespaces, a helper of ours, and the helper
// tells how the task's program has ended.
//
// Where the agent says so, each task also has rules of the kernel for files (package agent/walls/paths): the thread
// that starts the task first restricts itself by these rules, and ends afterwards.
//
// If this process dies its tasks must die too, and the agent kills them. No journal of tasks is needed for that: every
// child stays in the session that the agent has made for this executor. The kernel records the session at the fork, so
// that no child is missed, even when the executor was killed at a bad moment. A file would cost each start a write, and
// could be late. The status RUNNING also names the process group and its start time.
//
// A task runs as the owner of its sandbox, which the agent has made, and which nobody but root can give to another
// user. So an executor of root can start each of its tasks as another user, and stays out of their reach.
//
// The package only starts programs. Files are fetched by the agent before.
package commands
