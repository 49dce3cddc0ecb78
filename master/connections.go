package master

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/intake"
)

const (
	// grpcConnectionsMax and httpConnectionsMax bound the connections that are open at a listener. One more is closed
	// at once, and counted.
	grpcConnectionsMax = 65_536
	httpConnectionsMax = 4_096
	// handshakeMax is how long a connection may take until it speaks HTTP/2.
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

// underWay counts what is being served now.
type underWay struct {
	calls, streams atomic.Int64
	leaving        atomic.Bool    // this master is ending: callers that wait for a leader must not wait any longer
	beside         sync.WaitGroup // goroutines that read and write streams
	snapshots      chan struct{}  // holds one entry for each snapshot that is being saved
	saved          atomic.Int64   // when a snapshot was last saved as planned, in nanoseconds since 1970; 0: never
}

func newUnderWay() underWay { return underWay{snapshots: make(chan struct{}, snapshotsMax)} }

// admit counts a call or stream that begins, or refuses it; the returned function ends it.
func admit(under *atomic.Int64, limit int64, what, method string) (leave func(), err error) {
	if under.Add(1) > limit {
		under.Add(-1)
		err := fmt.Errorf("%d %s are under way at this master, which is the most; come back in %v", limit, what, guard.BusyRetry)
		return nil, api.E("master.call", api.Limit, method, err).RetryIn(guard.BusyRetry)
	}
	return func() { under.Add(-1) }, nil
}

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

// listen opens a listener; its error says what is wrong with the address.
func (c Config) listen(what, address string) (net.Listener, error) {
	listener, err := c.Listen(address)
	return listener, listenError(what, address, err)
}

// listenError explains why a listener can't be opened; nil without an error.
func listenError(what, address string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		return api.E("master.listen", api.Exists, address,
			fmt.Errorf("the %s port is in use; end what listens there, or choose another port", what))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return api.E("master.listen", api.Invalid, address,
			fmt.Errorf("the %s listener can't be opened: this is no address of this machine; name one of its own, or 0.0.0.0 for all", what))
	case errors.Is(err, syscall.EACCES):
		return api.E("master.listen", api.Denied, address, fmt.Errorf("this user may not open the %s port: %w", what, err))
	}
	return api.E("master.listen", api.Unavailable, address, fmt.Errorf("the %s listener can't be opened: %w", what, err))
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
func (m *Master) shutFolder() {
	dir := m.config.DataDir
	m.shut(dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		m.log.Warn().AnErr("why", err).Msg("the data folder can't be listed")
	}
	for _, entry := range entries {
		if entry.IsDir() || entry.Type().IsRegular() {
			m.shut(filepath.Join(dir, entry.Name()))
		}
	}
}

func (m *Master) shut(path string) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&othersMay == 0 {
		return
	}
	now := info.Mode().Perm() &^ othersMay
	said := m.log.Warn().Str("path", path).Stringer("mode", info.Mode().Perm())
	if err := os.Chmod(path, now); err != nil {
		said.AnErr("why", err).Msg("files of this master are accessible to other users of this machine; give the data folder to the master's own user, with mode 0700")
		return
	}
	said.Stringer("now", now).Msg("files of this master were accessible to other users of this machine; that is corrected")
}

// othersMay are the rights of everyone but the owner.
const othersMay fs.FileMode = 0o077
