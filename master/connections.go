package master

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/internal/intake"
)

const (
	// grpcConnectionsMax and httpConnectionsMax bound the connections that are open at a listener. One more is closed
	// at once, and counted.
	grpcConnectionsMax = 65_536
	httpConnectionsMax = 4_096
	// handshakeMax is how long a connection may take until it speaks HTTP/2, or greets as that of an agent.
	handshakeMax = 10 * time.Second
	// idleConnectionMax is how long a connection without a call stays open. A client that calls again dials again.
	idleConnectionMax = 5 * time.Minute
	// firstCallMax is how long a stream may take until its first call says who it is. After that it is closed.
	firstCallMax = 10 * time.Second
	// streamsMax and callsMax bound the streams and the other calls that this master serves at a time. One more is
	// refused (Limit).
	streamsMax = 131_072
	callsMax   = 16_384
	// streamsPerPrincipalMax and callsPerPrincipalMax are half of that, so that others are served whatever the
	// frameworks and people of one principal do. A principal may have 50,000 frameworks with a session each.
	streamsPerPrincipalMax = 65_536
	callsPerPrincipalMax   = 8_192
	// snapshotsMax bounds the snapshots that are saved at a time. One more is refused (Limit).
	snapshotsMax = 2
	// slowRetry is when to retry a call that takes some seconds and is served for few callers at a time.
	slowRetry = 5 * time.Second
)

// firstCall closes a stream whose first call does not come in time. When too many streams of one address are silent, it
// also closes the one that has been silent for longest. The caller calls heard when the first call has come, and at the
// end of the stream.
func firstCall(op string, by *intake.Sender, end func(*api.Error)) (heard func()) {
	late := time.AfterFunc(firstCallMax, func() {
		end(api.E(op, api.Unavailable, "", errors.New("no call within "+firstCallMax.String())))
	})
	leave := by.Silent(func() {
		err := fmt.Errorf("very many streams of this address have said nothing, this one for longest; come back in %v", intake.ReturnRetry)
		end(api.E(op, api.Unavailable, "", err).RetryIn(intake.ReturnRetry))
	})
	return func() {
		late.Stop()
		leave()
	}
}

// oneAtATime refuses a request while another one is being served, because each keeps a processor busy.
func oneAtATime(handle http.HandlerFunc) http.HandlerFunc {
	busy := make(chan struct{}, 1)
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case busy <- struct{}{}:
			defer func() { <-busy }()
			handle(w, r)
		default:
			w.Header().Set("Retry-After", seconds(slowRetry))
			sentence(w, http.StatusTooManyRequests, "another one is under way; come back when it has ended")
		}
	}
}

// LockFile is the file in a master's folder that its process locks. It stays behind when a start fails because a port
// is taken.
const LockFile = "LOCK"

// lockFolder makes the folder if needed and locks it until the file is closed.
func lockFolder(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, api.E("master.open", api.Unavailable, dir, fmt.Errorf("the data folder can't be made: %w", err))
	}
	file, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, api.E("master.open", api.Unavailable, dir, fmt.Errorf("the data folder can't be locked: %w", err))
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, api.E("master.open", api.Exists, dir,
			errors.New("the data folder is in use by another master; each master needs a folder of its own"))
	}
	return file, nil
}

// shutFolder removes the rights of the machine's other users to the data folder and to what is in it. A folder that
// somebody else made, or that was copied from a backup, may be open to them. If the rights can't be removed, a warning
// says so.
func shutFolder(dir string, log *zerolog.Logger) {
	shut(dir, log)
	entries, err := os.ReadDir(dir)
	if err != nil {
		log.Warn().AnErr("why", err).Msg("the data folder can't be listed")
	}
	for _, entry := range entries {
		if entry.IsDir() || entry.Type().IsRegular() {
			shut(filepath.Join(dir, entry.Name()), log)
		}
	}
}

// shut removes the rights of other users to a file or folder.
func shut(path string, log *zerolog.Logger) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&othersMay == 0 {
		return
	}
	now := info.Mode().Perm() &^ othersMay
	said := log.Warn().Str("path", path).Stringer("mode", info.Mode().Perm())
	if err := os.Chmod(path, now); err != nil {
		said.AnErr("why", err).Msg("files of this master are accessible to other users of this machine; give the data folder to the master's own user, with mode 0700")
		return
	}
	said.Stringer("now", now).Msg("files of this master were accessible to other users of this machine; that is corrected")
}

// othersMay are the rights of everyone but the owner.
const othersMay fs.FileMode = 0o077
