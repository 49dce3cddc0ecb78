package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
)

// Volumes keep their data through everything but DestroyVolume (R22). They are few, so
// the loop makes their folders itself. A task that holds one finds it in its sandbox as
// volumes/VOLUME, a link: a sandbox that is deleted takes no data with it.

func (a *Agent) volumeFolder(id api.VolumeID) string {
	return filepath.Join(a.path("volumes"), string(id))
}

func (a *Agent) createVolume(id api.VolumeID) {
	if a.config.DataDir == "" {
		return
	}
	if err := os.MkdirAll(a.volumeFolder(id), 0o755); err != nil {
		a.log.Error().Err(err).Str("volume", string(id)).Msg("a volume's folder was not made")
	}
}

func (a *Agent) destroyVolume(id api.VolumeID) {
	a.start(func() {
		done := core.VolumeDestroyed{Volume: id}
		if a.config.DataDir != "" {
			if err := os.RemoveAll(a.volumeFolder(id)); err != nil {
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
