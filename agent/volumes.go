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

func (f *dataFolder) volumeFolder(id api.VolumeID) string {
	return filepath.Join(f.at("volumes"), string(id))
}

// createVolume makes a volume's folder.
func (f *dataFolder) createVolume(e core.CreateVolume) error {
	if f.path == "" {
		return nil
	}
	var wrong error
	if _, err := os.Lstat(f.volumeFolder(e.Volume)); err == nil && e.New {
		wrong = f.putAside("unknown", f.volumeFolder(e.Volume))
	}
	if err := os.MkdirAll(f.volumeFolder(e.Volume), 0o755); err != nil {
		f.log.Error().Err(err).Str("volume", string(e.Volume)).Msg("a volume's folder was not made")
	}
	return wrong
}

// sweepVolumes puts the folders of volumes aside that the agent does not have, so that no
// volume of the same ID ever shows another one's data. Nobody deletes them but a person (R22).
func (f *dataFolder) sweepVolumes(owner api.AgentID, has func(api.VolumeID) bool) error {
	if f.path == "" {
		return nil
	}
	var wrong error
	for _, folder := range list(f.at("volumes")) {
		if !has(api.VolumeID(filepath.Base(folder))) {
			wrong = cmp.Or(wrong, f.putAside(cmp.Or(owner, "unknown"), folder))
		}
	}
	return wrong
}

// putAside moves a volume's folder to volumes-of/OWNER, under its own name or that with a number.
func (f *dataFolder) putAside(owner api.AgentID, folder string) error {
	kept := filepath.Join(f.at("volumes-of"), string(owner))
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
		return api.E("agent.volumes", api.Internal, folder,
			fmt.Errorf("data that is not this agent's could not be put aside; move it elsewhere: %w", err))
	}
	f.log.Warn().Str("folder", to).Msg("a volume of an agent that is no more was put aside; delete it when nobody needs it")
	return nil
}

// destroyVolume deletes a volume with its data.
func (f *dataFolder) destroyVolume(id api.VolumeID) error {
	if f.path == "" {
		return nil
	}
	return f.launcher.Delete(f.volumeFolder(id))
}

// showVolumes links the volumes into a sandbox, which it makes. A second call does
// nothing; a volume without its folder is an error, for the task would write its data
// where it does not last.
func (f *dataFolder) showVolumes(sandbox string, ids []api.VolumeID) error {
	if f.path == "" || len(ids) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(sandbox, "volumes"), 0o755); err != nil {
		return err
	}
	for _, id := range ids {
		folder, err := filepath.Abs(f.volumeFolder(id))
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
