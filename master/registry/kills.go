package registry

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// Kill is an operator's kill of a task whose agent was away when it was asked for. It is kept until the agent has it, or
// is back without the task, so that it survives every change of leaders. (Protocol rule R12.)
type Kill struct {
	Task  api.TaskRef
	Grace time.Duration // 0 = the task's own
}

// KillsMax bounds the kills that are kept for one agent. One more is refused.
const KillsMax = 1000

// KeepKill keeps an operator's kill until the task's agent has it.
type KeepKill struct {
	ID    api.AgentID
	Task  api.TaskRef
	Grace time.Duration
}

func (change KeepKill) apply(s *State, _ time.Time) Result {
	const op = "task.kill"
	old, bad := s.agent(op, change.ID)
	if bad != nil {
		return *bad
	}
	err := cmp.Or(api.CheckID("framework", string(change.Task.Framework)), api.CheckID("task", string(change.Task.Task)))
	kept := Kill{change.Task, max(change.Grace, 0)}
	switch {
	case err != nil:
		return Result{Err: api.E(op, api.Invalid, "", err)}
	case slices.Contains(old.Kills, kept):
		return Result{Agent: change.ID}
	case len(old.Kills) >= KillsMax:
		return refuse(op, api.Limit, change.ID, "%d kills wait for this agent already; ask again when it is back", KillsMax)
	}
	old.Kills = append(slices.Clip(old.Kills), kept)
	return s.putAgent(op, old)
}

func (KeepKill) saw() sight {
	return blind("it adds one kill; of a task that has ended it is forgotten when its agent is back")
}

// ForgetKills forgets the kills of these tasks: the agent has them, or has no such tasks that run.
type ForgetKills struct {
	ID    api.AgentID
	Tasks []api.TaskRef
}

func (change ForgetKills) apply(s *State, _ time.Time) Result {
	old, bad := s.agent("task.kill", change.ID)
	if bad != nil {
		return *bad
	}
	old.Kills = slices.DeleteFunc(slices.Clone(old.Kills), func(k Kill) bool { return slices.Contains(change.Tasks, k.Task) })
	if len(old.Kills) == 0 {
		old.Kills = nil
	}
	s.setAgent(old)
	return Result{Agent: change.ID}
}

func (ForgetKills) saw() sight {
	return blind("it follows what the agent has said of tasks whose IDs are never used twice")
}

func (ForgetKills) onlyKept() {}
