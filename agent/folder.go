package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/tenderhq/tender/agent/checkpoint"
	"github.com/tenderhq/tender/api"
)

// The data folder:
//
//	lock             held as long as the agent runs
//	identity, identity.spare, checkpoint.log
//	socket           the path of the executors' socket, when it is elsewhere
//	executors.sock   else that socket
//	sandboxes/FRAMEWORK/EXECUTOR/{stdout,stderr,volumes/,tasks/TASK/}
//	volumes/VOLUME/  what sandboxes show as volumes/VOLUME
//	volumes-of/AGENT/VOLUME/  those of an agent that was given up, for a person to look after
//	cache/           files from the network by their checksum
//	trash/           sandboxes that are being deleted

// trashItemsMax: more folders to delete than that, and they stay until the next start.
const trashItemsMax = 1 << 16

func (a *Agent) path(name string) string {
	if a.config.DataDir == "" {
		return "/" + name // of a cluster in memory: only a name
	}
	return filepath.Join(a.config.DataDir, name)
}

// lockFolder makes sure that no other agent works on the folder.
func (a *Agent) lockFolder() (unlock func(), err error) {
	if a.config.DataDir == "" {
		return func() {}, nil
	}
	if err := os.MkdirAll(a.config.DataDir, 0o755); err != nil {
		return nil, api.E("agent.start", api.Invalid, a.config.DataDir, err)
	}
	lock, err := os.OpenFile(a.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, api.E("agent.start", api.Invalid, a.config.DataDir, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close() //nolint:errcheck // nothing was written
		return nil, api.E("agent.start", api.Exists, a.config.DataDir,
			errors.New("another agent works on this data folder; stop it, or name another folder"))
	}
	return func() { lock.Close() }, nil //nolint:errcheck // closing unlocks
}

// openFolder opens the checkpoint.
func (a *Agent) openFolder() error {
	if a.store == nil {
		a.store = checkpoint.NewDisk(checkpoint.Config{Folder: a.config.DataDir, BootID: a.config.BootID})
	}
	return nil
}

func (a *Agent) tellRepairs() {
	if disk, is := a.store.(*checkpoint.Disk); is && disk.Repaired() != "" {
		a.log.Warn().Str("what", disk.Repaired()).Msg("checkpoint repaired")
	}
}

// Connections at a time. Beyond them the newest is closed at once, and counted in a metric: a stranger's connections
// must not use up the descriptors by which executors come back.
const (
	httpConnectionsMax     = 4096
	executorConnectionsMax = 16384
)

// listen opens the HTTP listener and the executors' socket.
func (a *Agent) listen() error {
	switch {
	case a.config.Listener != nil:
		a.http = newSharedListener(a.config.Listener, httpConnectionsMax)
	case a.config.Port > 0:
		listener, err := listenTCP(net.JoinHostPort(a.config.Bind, strconv.Itoa(a.config.Port)))
		if err != nil {
			return err
		}
		a.http = newSharedListener(listener, httpConnectionsMax)
	}
	if a.config.ExecutorListener != nil {
		a.sockets = newSharedListener(a.config.ExecutorListener, executorConnectionsMax)
		a.socket = a.config.ExecutorListener.Addr().String()
		return nil
	}
	listener, err := a.listenSocket()
	if err != nil {
		return api.E("agent.start", api.Internal, a.config.DataDir, err)
	}
	a.sockets = newSharedListener(listener, executorConnectionsMax)
	return nil
}

func listenTCP(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, api.E("agent.listen", api.Exists, address,
			errors.New("the port is in use, perhaps by another agent on this machine; choose another one"))
	case err != nil:
		return nil, api.E("agent.listen", api.Invalid, address, err)
	}
	return listener, nil
}

// socketBytesMax is what every system takes as the path of a unix socket (R32).
const socketBytesMax = 100

// listenSocket binds the same path as the agent before: its executors come back there.
// The folder's lock is held, so a socket that is there is nobody's.
func (a *Agent) listenSocket() (net.Listener, error) {
	path, err := a.socketPath()
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	a.socket = path
	return listener, os.Chmod(path, 0o600)
}

// socketPath is in the data folder, or in a short runtime folder that the data folder
// names.
func (a *Agent) socketPath() (string, error) {
	if named, err := os.ReadFile(a.path("socket")); err == nil {
		path, err := readSocketPath(string(named))
		if err != nil {
			return "", fmt.Errorf("%s %w", a.path("socket"), err)
		}
		return path, runtimeFolder(filepath.Dir(path))
	}
	path := a.path("executors.sock")
	if len(path) <= socketBytesMax {
		return path, nil
	}
	sum := sha256.Sum256([]byte(a.config.DataDir))
	folder := fmt.Sprintf("/tmp/tender-%d-%s", os.Getuid(), hex.EncodeToString(sum[:6]))
	path = filepath.Join(folder+"-"+checksumOf(folder), "executors.sock")
	if err := runtimeFolder(filepath.Dir(path)); err != nil {
		return "", err
	}
	if err := os.WriteFile(a.path("socket.new"), []byte(path+"\n"), 0o600); err != nil {
		return "", err
	}
	return path, os.Rename(a.path("socket.new"), a.path("socket"))
}

// socketFolder is such a path, without the checksum if an older version has written it.
var socketFolder = regexp.MustCompile(`^(/tmp/tender-\d+-[0-9a-f]{12})(?:-([0-9a-f]{8}))?/executors\.sock\n?$`)

func checksumOf(folder string) string {
	return fmt.Sprintf("%08x", crc32.Checksum([]byte(folder), crc32.MakeTable(crc32.Castagnoli)))
}

// readSocketPath refuses a path that was not written as it is: at another one no executor would find its agent again.
func readSocketPath(named string) (string, error) {
	parts := socketFolder.FindStringSubmatch(named)
	if parts == nil || parts[2] != "" && parts[2] != checksumOf(parts[1]) {
		return "", fmt.Errorf("is damaged: %q is no path of executors' sockets; write there the path that its executors wait at, one of /tmp/tender-*, "+
			"or delete the file if no task of this agent runs any more", named)
	}
	return strings.TrimSuffix(named, "\n"), nil
}

// runtimeFolder makes a folder that is ours alone; one that others could have prepared
// is refused.
func runtimeFolder(folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm() != 0o700 || ok && int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("the runtime folder %s is not this user's alone; remove it", folder)
	}
	return nil
}

// removeFolder deletes a sandbox: its path is free when this returns, for whatever task comes
// next, and the rest is done by and by.
func (a *Agent) removeFolder(path string) {
	away, err := a.launcher.MoveAway(path)
	switch {
	case err != nil:
		a.log.Error().Err(err).Str("folder", path).Msg("a sandbox was not deleted")
	case away != "" && !a.trash.put(away):
		a.log.Warn().Str("folder", away).Msg("too many sandboxes to delete at once; this one goes with the next start")
	}
}

// emptyTrash deletes folders one after the other.
func (a *Agent) emptyTrash(ctx context.Context) {
	for {
		paths, more := a.trash.take(ctx)
		for _, path := range paths {
			if err := a.launcher.Delete(path); err != nil {
				a.log.Error().Err(err).Str("folder", path).Msg("a sandbox was not deleted")
			}
		}
		if !more {
			return
		}
	}
}

// sweepFolders removes what an earlier agent did not come to delete: its trash, and sandboxes
// that nobody knows any more. All of them have left their paths when this returns, so it comes
// before anything that could make the same ones anew.
func (a *Agent) sweepFolders() {
	if a.config.DataDir == "" {
		return
	}
	for _, path := range list(a.path("trash")) {
		a.trash.put(path)
	}
	known := a.core.Folders()
	for _, framework := range list(a.path("sandboxes")) {
		for _, executor := range list(framework) {
			if !known[executor] {
				a.removeFolder(executor)
				continue
			}
			for _, task := range list(filepath.Join(executor, "tasks")) {
				if !known[task] {
					a.removeFolder(task)
				}
			}
		}
	}
}

// list names what is in a folder; nothing when it is not there.
func list(folder string) []string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	paths := make([]string, len(entries))
	for i, entry := range entries {
		paths[i] = filepath.Join(folder, entry.Name())
	}
	return paths
}

// freePercent is the room on the sandboxes' disk.
func (a *Agent) freePercent() int {
	if a.config.DataDir == "" {
		return 100
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(a.config.DataDir, &s); err != nil || s.Blocks == 0 {
		return 100
	}
	return int(s.Bavail * 100 / s.Blocks)
}
