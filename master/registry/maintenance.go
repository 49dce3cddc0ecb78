package registry

import (
	"errors"
	"time"

	"github.com/tenderhq/tender/api"
)

// SetMaintenance gives agents a window, or none, if the marks and maintenance of each are still those of the version in
// Saw. It changes all of them, or nobody if one is unknown or gone.
type SetMaintenance struct {
	Agents []api.AgentID
	Window api.Window
	Saw    []uint64 // the MarksVersion of each agent, or Whatever
}

// apply plans the windows. When a window that had begun for an agent is replaced, its drain ends too.
func (change SetMaintenance) apply(s *State, _ time.Time) Result {
	const op = "maintenance.set"
	if bad := s.checkMaintenance(op, change); bad != nil {
		return *bad
	}
	window := plainWindow(change.Window)
	for _, id := range change.Agents {
		old := s.Agents[id]
		if old.Maintained {
			old.Marks &^= api.MarkDraining | api.MarkDrained
			if old.Marks == 0 {
				old.Grace, old.Why = 0, ""
			}
		}
		old.Maintenance, old.Maintained = window, false
		old.MarksVersion++
		s.setAgent(old)
	}
	return Result{}
}

func (change SetMaintenance) saw() sight {
	return sawAgents{"maintenance.set", change.Agents, change.Saw}
}

func (s *State) checkMaintenance(op string, change SetMaintenance) *Result {
	if err := checkWindow(change.Window); err != nil {
		return &Result{Err: api.E(op, api.Invalid, "", err)}
	}
	if n := len(change.Agents); n > MaintenanceAgentsMax {
		return refusal(op, api.Limit, "", "%d agents at once; at most %d are allowed", n, MaintenanceAgentsMax)
	}
	for _, id := range change.Agents {
		old, bad := s.agent(op, id)
		if bad != nil {
			return bad
		}
		if old.Marks.Has(api.MarkGone) && !change.Window.Start.IsZero() {
			return refusal(op, api.Removed, id, "the agent was marked gone")
		}
	}
	return nil
}

func checkWindow(window api.Window) error {
	switch {
	case window.Duration < 0:
		return errors.New("the duration is negative")
	case window.Start.IsZero() && window.Duration != 0:
		return errors.New("the window has a duration but no start")
	}
	return nil
}

// plainWindow returns the window with its start in the only form that masters compare and write.
func plainWindow(window api.Window) api.Window {
	if window.Start.IsZero() {
		return api.Window{}
	}
	return api.Window{Start: window.Start.Round(0).UTC(), Duration: window.Duration}
}

// BeginMaintenance drains an agent whose window has begun, if its marks and maintenance are still those of the version
// Saw.
type BeginMaintenance struct {
	ID  api.AgentID
	Saw uint64 // MarksVersion
}

// apply drains the agent, unless it is draining already. In that case, that drain outlives the window.
func (change BeginMaintenance) apply(s *State, _ time.Time) Result {
	const op = "maintenance.begin"
	old, bad := s.agent(op, change.ID)
	switch {
	case bad != nil:
		return *bad
	case old.Maintenance.Start.IsZero():
		return refuse(op, api.Invalid, change.ID, "it has no maintenance window")
	case old.Marks.Has(api.MarkGone):
		return refuse(op, api.Removed, change.ID, "the agent was marked gone")
	case old.Marks.Has(api.MarkDraining):
		return Result{Agent: change.ID}
	}
	old.Marks |= api.MarkDraining
	old.MarksVersion++
	old.Maintained, old.Grace, old.Why = true, 0, maintenanceWhy(old.Maintenance)
	s.setAgent(old)
	return Result{Agent: change.ID}
}

func (change BeginMaintenance) saw() sight {
	return sawAgent("maintenance.begin", change.ID, change.Saw)
}

func maintenanceWhy(window api.Window) string {
	if window.Duration == 0 {
		return "maintenance"
	}
	return "maintenance until " + window.End().Format(time.RFC3339)
}
