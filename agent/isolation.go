package agent

import (
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/agent/walls/paths"
	"github.com/tenderhq/tender/api"
)

// isolation is what keeps tasks apart on this machine, and as whom they run.
type isolation struct {
	config *Config
	folder *dataFolder

	cells *walls.Cells // control groups of executors and tasks; nil: the agent starts no processes itself
}

func (w *isolation) users() entry.Users {
	return entry.Users{Default: w.config.TaskUser, Allowed: w.config.TaskUsers}
}

// checkUsers returns why tasks can't run as the users that are configured.
func (w *isolation) checkUsers() error {
	if w.folder.path == "" {
		return nil
	}
	if err := w.users().Check(w.folder.path); err != nil {
		return api.E("agent.start", api.Invalid, w.config.TaskUser, err)
	}
	return nil
}

// findWalls finds out what can isolate tasks here: control groups, and the users that tasks run as.
func (w *isolation) findWalls() walls.Found {
	found := w.cells.Found()
	for _, ability := range w.users().Abilities() {
		found.Add(ability)
	}
	if why := w.users().Lack(); why != "" && !found.Has(paths.Ability) {
		found.Lack(why)
	}
	return found
}
