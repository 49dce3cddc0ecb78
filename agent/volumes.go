package agent

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
)

// Volumes keep their data through everything but DestroyVolume (R22). They are few, so
// the loop makes their folders itself. A task that holds one finds it in its sandbox as
// volumes/VOLUME, a link: a sandbox that is deleted takes no data with it.

func (a *Agent) volumeFolder(id api.VolumeID) string {
	return filepath.Join(a.path("volumes"), string(id))
}

func (a *Agent) createVolume(e core.CreateVolume) {
	if a.config.DataDir == "" {
		return
	}
	if _, err := os.Lstat(a.volumeFolder(e.Volume)); err == nil && e.New {
		a.putAside("unknown", a.volumeFolder(e.Volume))
	}
	if err := os.MkdirAll(a.volumeFolder(e.Volume), 0o755); err != nil {
		a.log.Error().Err(err).Str("volume", string(e.Volume)).Msg("a volume's folder was not made")
	}
}

// sweepVolumes puts the folders of volumes aside that the agent does not have, so that no
// volume of the same ID ever shows another one's data. Nobody deletes them but a person (R22).
func (a *Agent) sweepVolumes(owner api.AgentID, has func(api.VolumeID) bool) {
	if a.config.DataDir == "" {
		return
	}
	for _, folder := range list(a.path("volumes")) {
		if !has(api.VolumeID(filepath.Base(folder))) {
			a.putAside(cmp.Or(owner, "unknown"), folder)
		}
	}
}

// putAside moves a volume's folder to volumes-of/OWNER, under its own name or that with a number.
func (a *Agent) putAside(owner api.AgentID, folder string) {
	kept := filepath.Join(a.path("volumes-of"), string(owner))
	err := os.MkdirAll(kept, 0o755)
	to := filepath.Join(kept, filepath.Base(folder))
	for n := 2; err == nil; n++ {
		if _, missing := os.Lstat(to); missing != nil {
			err = os.Rename(folder, to)
			break
		}
		to = filepath.Join(kept, filepath.Base(folder)+"."+strconv.Itoa(n))
	}
	if err != nil {
		a.fail(api.E("agent.volumes", api.Internal, folder, fmt.Errorf("data that is not this agent's could not be put aside; move it elsewhere: %w", err)))
		return
	}
	a.log.Warn().Str("folder", to).Msg("a volume of an agent that is no more was put aside; delete it when nobody needs it")
}

func (a *Agent) destroyVolume(id api.VolumeID) {
	a.start(func() {
		done := core.VolumeDestroyed{Volume: id}
		if a.config.DataDir != "" {
			if err := a.launcher.Delete(a.volumeFolder(id)); err != nil {
				done.Err = err.Error()
			}
		}
		a.happened(a.context, done)
	})
}

// showVolumes links the volumes into a sandbox, which it makes. A second call does
// nothing; a volume without its folder is an error, for the task would write its data
// where it does not last.
func (a *Agent) showVolumes(sandbox string, ids []api.VolumeID) error {
	if a.config.DataDir == "" || len(ids) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(sandbox, "volumes"), 0o755); err != nil {
		return err
	}
	for _, id := range ids {
		folder, err := filepath.Abs(a.volumeFolder(id))
		if err != nil {
			return err
		}
		if _, err := os.Stat(folder); err != nil {
			return fmt.Errorf("the agent has no folder for volume %s: %w", id, err)
		}
		if err := os.Symlink(folder, filepath.Join(sandbox, "volumes", string(id))); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}
