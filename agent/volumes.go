package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
)

// Volumes keep their data through everything but DestroyVolume (R22). They are few, so the loop makes their folders
// itself. A task that holds a volume finds it in its sandbox as the link volumes/VOLUME, so that deleting the sandbox
// deletes no data.

func (f *dataFolder) volumeFolder(id api.VolumeID) string {
	return filepath.Join(f.at("volumes"), string(id))
}

func (f *dataFolder) volumeFolders(ids []api.VolumeID) (folders []string) {
	for _, id := range ids {
		folders = append(folders, f.volumeFolder(id))
	}
	return folders
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
	if err := f.makeVolume(e.Volume); err != nil {
		f.log.Error().Err(err).Str("volume", string(e.Volume)).Msg("a volume's folder was not made")
	}
	return wrong
}

func (f *dataFolder) makeVolume(id api.VolumeID) error {
	place := f.below.At(f.volumeFolder(id))
	if root, err := place.Open(); err == nil {
		return root.Close() // the next task that has it decides whose it is
	}
	root, err := place.Make(entry.Self(), beneath.Private)
	if err != nil {
		return err
	}
	return root.Close()
}

// hasVolume says whether the volume's folder is there. It is safe for concurrent use.
func (f *dataFolder) hasVolume(id api.VolumeID) bool {
	info, err := os.Lstat(f.volumeFolder(id))
	return f.path == "" || err == nil && info.IsDir()
}

// sweepVolumes moves the folders of volumes that the agent does not have aside, so that a volume with the same ID never
// shows another one's data. Only a person deletes them (R22).
func (f *dataFolder) sweepVolumes(owner api.AgentID, has func(api.VolumeID) bool) error {
	if f.path == "" {
		return nil
	}
	var wrong error
	for _, folder := range f.list(f.at("volumes")) {
		if !has(api.VolumeID(filepath.Base(folder))) {
			wrong = cmp.Or(wrong, f.putAside(cmp.Or(owner, "unknown"), folder))
		}
	}
	return wrong
}

// putAside moves a volume's folder to volumes-of/OWNER, under its own name, with a number if that name is taken.
func (f *dataFolder) putAside(owner api.AgentID, folder string) error {
	kept := filepath.Join(f.at("volumes-of"), string(owner))
	err := os.MkdirAll(kept, beneath.Private)
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
	f.log.Warn().Str("folder", to).Msg("a volume of a former agent was moved aside; delete it when nobody needs it")
	return nil
}

// destroyVolume deletes a volume with its data.
func (f *dataFolder) destroyVolume(id api.VolumeID) error {
	if f.path == "" {
		return nil
	}
	return f.launcher.Delete(f.volumeFolder(id))
}

// showVolumes links the volumes into a sandbox and gives them to the sandbox's user. A second call does nothing. A
// volume without a folder is an error, because the task would write its data to a place that is soon deleted.
func (f *dataFolder) showVolumes(sandbox string, ids []api.VolumeID) error {
	root, err := f.below.At(sandbox).Open()
	if err != nil {
		return err
	}
	defer root.Close()
	for _, id := range ids {
		if err := f.showVolume(root, id); err != nil {
			return err
		}
	}
	return nil
}

// prepareVolumes makes a place and links volumes into it.
func (f *dataFolder) prepareVolumes(ctx context.Context, place executor.Place, ids []api.VolumeID) error {
	if f.path == "" || len(ids) == 0 {
		return nil
	}
	if err := f.launcher.Prepare(ctx, place, nil); err != nil {
		return err
	}
	return f.showVolumes(cmp.Or(place.Task, place.Sandbox), ids)
}

// giveVolume gives the folder of an existing volume, with everything in it, to the sandbox's user.
func (f *dataFolder) giveVolume(folder string, sandbox *os.Root) error {
	info, err := sandbox.Stat(".")
	if err != nil {
		return err
	}
	place := f.below.At(folder)
	if _, err := place.Lstat("."); err != nil {
		return err
	}
	volume, err := place.Make(entry.OwnerOf(info), beneath.Private)
	if err != nil {
		return err
	}
	return volume.Close()
}

func (f *dataFolder) showVolume(sandbox *os.Root, id api.VolumeID) error {
	folder, err := filepath.Abs(f.volumeFolder(id))
	if err != nil {
		return err
	}
	if err := f.giveVolume(folder, sandbox); err != nil {
		return fmt.Errorf("the agent has no folder for volume %s: %w", id, err)
	}
	return beneath.AsOwner(sandbox, func() error {
		if err := sandbox.MkdirAll("volumes", beneath.Private); err != nil {
			return err
		}
		if err := sandbox.Symlink(folder, filepath.Join("volumes", string(id))); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		return nil
	})
}

// makeShared makes the folder that the tasks of a group share. It belongs to the user that all of them run as. A second
// call does nothing.
func (f *dataFolder) makeShared(ctx context.Context, out outgoing) error {
	holder := filepath.Dir(out.shared)
	err := f.launcher.Prepare(ctx, executor.TaskPlace(holder, out.builtin, out.as), nil)
	if err != nil || f.path == "" {
		return err
	}
	root, err := f.below.At(out.shared).Ensure()
	if err != nil {
		return err
	}
	return root.Close()
}
