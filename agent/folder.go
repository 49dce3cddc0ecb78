package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/membership"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/datafolder"
	"github.com/tenderhq/tender/internal/trust"
)

// The data folder:
//
//	certificate.pem  key and certificate of an agent that has joined by a token
//	lock             held as long as the agent runs
//	identity, identity.spare, checkpoint.log
//	socket           the path of the executors' socket, when it is elsewhere
//	sockets/         else the folder of that socket, which is all that executors with namespaces see of it
//	sandboxes/FRAMEWORK/EXECUTOR/{stdout,stderr,volumes/,tasks/TASK/}
//	volumes/VOLUME/  what sandboxes show as volumes/VOLUME
//	volumes-of/AGENT/VOLUME/  those of an agent that was given up, for a person to look after
//	cache/           files from the network by their checksum
//	images/          layers of images by their checksum, unpacked
//	trash/           sandboxes that are being deleted

// trashItemsMax is how many folders may wait to be deleted. Further ones stay until the next start.
const trashItemsMax = 1 << 16

// Other users may pass through the folder to what is theirs, but can't list it. Sandboxes and volumes belong to the
// users of tasks; everything else is for the agent's user alone.

// dataFolder is where an agent keeps what must last. In a cluster in memory its path is "", and nothing is on disk.
type dataFolder struct {
	path     string
	below    *beneath.Folder // everything that tasks may own is opened through it
	log      zerolog.Logger
	launcher executor.Launcher // moves folders away and deletes them, with the rights that tasks had there
	trash    *outbox[string]
	member   *membership.Membership // how others identify this agent: by the certificate that is kept here
}

func newDataFolder(path string, log zerolog.Logger) *dataFolder {
	return &dataFolder{path: path, below: beneath.New(cmp.Or(path, "/")), log: log, trash: newOutbox(outboxLimits{items: trashItemsMax}, func(string) int { return 0 })}
}

// at returns the path of something in the folder.
func (f *dataFolder) at(name string) string {
	if f.path == "" {
		return "/" + name // in a cluster in memory it is only a name
	}
	return filepath.Join(f.path, name)
}

// lock makes sure that no other agent works on the folder.
func (f *dataFolder) lock() (unlock func(), err error) {
	if f.path == "" {
		return func() {}, nil
	}
	if err := datafolder.Check(f.path, datafolder.Agent); err != nil {
		return nil, api.E("agent.start", api.Invalid, f.path, err)
	}
	err = os.MkdirAll(filepath.Dir(f.path), 0o755)
	if err == nil {
		err = os.Mkdir(f.path, beneath.Passage)
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, api.E("agent.start", api.Invalid, f.path, err)
	}
	if err := f.shut(); err != nil {
		return nil, api.E("agent.start", api.Invalid, f.path, err)
	}
	lock, err := os.OpenFile(f.at("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, api.E("agent.start", api.Invalid, f.path, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close() //nolint:errcheck // nothing was written
		return nil, api.E("agent.start", api.Exists, f.path,
			errors.New("another agent works on this data folder; stop it, or name another folder"))
	}
	// The trash is made now: when the disk is full there may be no room for it, and sandboxes could not be deleted.
	if err := os.Mkdir(f.at("trash"), beneath.Private); err != nil && !errors.Is(err, os.ErrExist) && !datafolder.IsDiskFull(err) {
		lock.Close() //nolint:errcheck // nothing was written
		return nil, api.E("agent.start", api.Invalid, f.path, err)
	}
	return func() { lock.Close(); f.below.Close() }, nil //nolint:errcheck // closing unlocks
}

// shut sets the modes that the folder, and what somebody has left open in it, should have, and logs what it had to
// change. What belongs to another user can't be changed; a warning tells a person.
func (f *dataFolder) shut() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	if owner := entry.OwnerOf(info); !owner.IsSelf() {
		f.log.Warn().Int("user", owner.UID).Msg("the data folder belongs to another user, who can change all that the agent knows; " +
			"give it to the agent's own user")
		return nil
	}
	err = f.setMode(f.path, info, beneath.Passage)
	entries, failed := os.ReadDir(f.path)
	for _, child := range entries {
		info, gone := child.Info()
		switch name := child.Name(); {
		case gone != nil || info.Mode()&fs.ModeSymlink != 0 || !entry.OwnerOf(info).IsSelf():
		case name == "sandboxes" || name == "volumes" || name == "sockets":
			err = errors.Join(err, f.setMode(f.at(name), info, beneath.Passage))
		case child.IsDir():
			err = errors.Join(err, f.setMode(f.at(name), info, beneath.Private))
		case info.Mode().IsRegular():
			err = errors.Join(err, f.setMode(f.at(name), info, 0o600))
		}
	}
	return errors.Join(err, failed)
}

func (f *dataFolder) setMode(path string, info fs.FileInfo, mode fs.FileMode) error {
	if info.Mode().Perm() == mode {
		return nil
	}
	if info.Mode().Perm()&^mode != 0 {
		f.log.Warn().Str("path", path).Stringer("mode", info.Mode().Perm()).Stringer("now", mode).
			Msg("other users of this machine could see more than they should; mended")
	}
	return os.Chmod(path, mode)
}

// own returns the folders that belong to a task: its sandbox, its group's folder and its volumes.
func (f *dataFolder) own(task core.TaskView) []string {
	own := []string{task.Sandbox}
	if task.Shared != "" {
		own = append(own, task.Shared)
	}
	for _, volume := range task.Volumes {
		own = append(own, f.volumeFolder(volume))
	}
	return own
}

// socketBytesMax is the length of a unix socket's path that every system accepts (R32).
const socketBytesMax = 100

// listenSocket listens at the path that the previous agent used, because its executors come back there. The folder's
// lock is held, so nobody serves a socket that exists.
func (f *dataFolder) listenSocket(mode fs.FileMode) (listener net.Listener, path string, err error) {
	path, err = f.socketPath()
	if err != nil {
		return nil, "", err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, "", err
	}
	listener, err = net.Listen("unix", path)
	if err != nil {
		return nil, "", err
	}
	return listener, path, os.Chmod(path, mode)
}

// socketPath returns a path in a folder of the data folder, or in a short runtime folder that the data folder names.
// Either folder holds nothing else and stays, so that an executor that sees the folder sees the socket of each later
// agent.
func (f *dataFolder) socketPath() (string, error) {
	if named, err := os.ReadFile(f.at("socket")); err == nil {
		path, err := readSocketPath(string(named))
		if err != nil {
			return "", fmt.Errorf("%s %w", f.at("socket"), err)
		}
		return path, runtimeFolder(filepath.Dir(path))
	}
	path := f.at("sockets/executors.sock")
	if len(path) <= socketBytesMax {
		return path, runtimeFolder(filepath.Dir(path))
	}
	sum := sha256.Sum256([]byte(f.path))
	folder := fmt.Sprintf("/tmp/tender-%d-%s", os.Getuid(), hex.EncodeToString(sum[:6]))
	path = filepath.Join(folder+"-"+checksumOf(folder), "executors.sock")
	if err := runtimeFolder(filepath.Dir(path)); err != nil {
		return "", err
	}
	if err := os.WriteFile(f.at("socket.new"), []byte(path+"\n"), 0o600); err != nil {
		return "", err
	}
	return path, os.Rename(f.at("socket.new"), f.at("socket"))
}

// socketFolder matches such a path, which ends with a checksum.
var socketFolder = regexp.MustCompile(`^(/tmp/tender-\d+-[0-9a-f]{12})-([0-9a-f]{8})/executors\.sock\n?$`)

func checksumOf(folder string) string {
	return fmt.Sprintf("%08x", crc32.Checksum([]byte(folder), crc32.MakeTable(crc32.Castagnoli)))
}

// readSocketPath refuses a path that was damaged on disk: at another path no executor would find its agent again.
func readSocketPath(named string) (string, error) {
	parts := socketFolder.FindStringSubmatch(named)
	if parts == nil || parts[2] != checksumOf(parts[1]) {
		return "", fmt.Errorf("is damaged: %q is no path of executors' sockets; write there the path that its executors wait at, one of /tmp/tender-*, "+
			"or delete the file if no task of this agent runs any more", named)
	}
	return strings.TrimSuffix(named, "\n"), nil
}

// runtimeFolder makes a folder in which only this user can make files, and through which others reach the socket. It
// refuses a folder that others could have prepared.
func runtimeFolder(folder string) error {
	if err := os.Mkdir(folder, beneath.Private); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm()&^beneath.Passage != 0 || !entry.OwnerOf(info).IsSelf() {
		return fmt.Errorf("the runtime folder %s is not this user's alone; remove it", folder)
	}
	return os.Chmod(folder, beneath.Passage)
}

// remove deletes a sandbox. Its path is free for the next task when this returns; the content is deleted later. free says
// that no process can have it open.
func (f *dataFolder) remove(path string, free bool) {
	away, err := f.launcher.MoveAway(path, free)
	if err != nil {
		f.log.Error().Err(err).Str("folder", path).Msg("a sandbox was not deleted")
	}
	if away != "" && !f.trash.put(away) {
		f.log.Warn().Str("folder", away).Msg("too many sandboxes to delete at once; this one is deleted at the next start")
	}
}

// emptyTrash deletes the folders in the trash one after the other.
func (f *dataFolder) emptyTrash(ctx context.Context) {
	for {
		paths, more := f.trash.take(ctx)
		for _, path := range paths {
			if err := f.launcher.Delete(path); err != nil {
				f.log.Error().Err(err).Str("folder", path).Msg("a sandbox was not deleted")
			}
		}
		if !more {
			return
		}
	}
}

// sweep removes what an earlier agent had no time to delete: its trash, and sandboxes that nobody knows any more. All
// of them have left their paths when this returns. So it must be called before anything could make the same paths
// again.
func (f *dataFolder) sweep(known map[string]bool) {
	if f.path == "" {
		return
	}
	for _, path := range f.list(f.at("trash")) {
		f.trash.put(path)
	}
	for _, framework := range f.list(f.at("sandboxes")) {
		f.shutSandbox(framework, beneath.Passage)
		for _, executor := range f.list(framework) {
			if !known[executor] {
				f.remove(executor, false)
				continue
			}
			f.shutSandbox(executor, beneath.Passage)
			f.shutSandbox(filepath.Join(executor, "tasks"), beneath.Passage)
			for _, task := range f.list(filepath.Join(executor, "tasks")) {
				if !known[task] {
					f.remove(task, false)
					continue
				}
				f.shutSandbox(task, beneath.Private)
			}
		}
	}
}

// shutSandbox closes a sandbox that somebody has opened to others. Those of other users are closed already.
func (f *dataFolder) shutSandbox(path string, mode fs.FileMode) {
	root, err := f.below.At(path).Open()
	if err != nil {
		return // the error is reported when the sandbox is used
	}
	defer root.Close()
	narrow := func(name string, mode fs.FileMode) error {
		info, err := root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0 || !entry.OwnerOf(info).IsSelf() || info.Mode().Perm()&^mode == 0:
			return nil
		}
		return root.Chmod(name, mode)
	}
	if err := errors.Join(narrow(".", mode), narrow("stdout", 0o600), narrow("stderr", 0o600)); err != nil {
		f.log.Warn().Err(err).Str("folder", path).Msg("a sandbox is still accessible to other users of this machine")
	}
}

// list returns the paths of what is in a folder; nothing if the folder does not exist.
func (f *dataFolder) list(folder string) (paths []string) {
	for _, name := range f.below.At(folder).List() {
		paths = append(paths, filepath.Join(folder, name))
	}
	return paths
}

// diskRoom returns how much room the sandboxes' disk has; zero if that is not known.
func (f *dataFolder) diskRoom() datafolder.Room {
	if f.path == "" {
		return datafolder.Room{}
	}
	room, err := datafolder.RoomOf(f.path)
	if err != nil {
		return datafolder.Room{}
	}
	return room
}

// holder returns this agent's certificate; nil: it has none.
func (f *dataFolder) holder() *trust.Holder { return f.member.Holder() }
