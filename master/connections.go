package master

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
)

const (
	// grpcConnectionsMax and httpConnectionsMax bound what is open at a listener; one more
	// connection is closed at once, and counted.
	grpcConnectionsMax = 65_536
	httpConnectionsMax = 4_096
	// handshakeMax is how long a connection may take to speak HTTP/2.
	handshakeMax = 10 * time.Second
	// idleConnectionMax is how long a connection without a call may stay open: whoever comes
	// back dials again.
	idleConnectionMax = 5 * time.Minute
	// firstCallMax is how long a stream may take to say who it is. Longer: it is closed.
	firstCallMax = 10 * time.Second
	// streamsMax and callsMax bound the streams and the other calls that are under way at
	// this master; one more is refused (Limit).
	streamsMax = 131_072
	callsMax   = 16_384
	// snapshotsMax bounds the snapshots that are being saved; one more is refused (Limit).
	snapshotsMax = 2
)

// underWay is what is being served at this moment.
type underWay struct {
	calls, streams atomic.Int64
	snapshots      chan struct{} // holds one for each that is being saved
}

func newUnderWay() underWay { return underWay{snapshots: make(chan struct{}, snapshotsMax)} }

// admit counts what is under way; leave ends it.
func admit(under *atomic.Int64, limit int64, what, method string) (leave func(), err error) {
	if under.Add(1) > limit {
		under.Add(-1)
		return nil, api.E("master.call", api.Limit, method, fmt.Errorf("%d %s are under way at this master, which is the most; come back", limit, what))
	}
	return func() { under.Add(-1) }, nil
}

// firstCall closes a stream whose first call does not come in time; call heard when it has.
func firstCall(op string, end func(*api.Error)) (heard func() bool) {
	return time.AfterFunc(firstCallMax, func() {
		end(api.E(op, api.Unavailable, "", errors.New("no call within "+firstCallMax.String())))
	}).Stop
}

// oneAtATime refuses a request while another one is under way: each keeps a processor busy.
func oneAtATime(handle http.HandlerFunc) http.HandlerFunc {
	busy := make(chan struct{}, 1)
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case busy <- struct{}{}:
			defer func() { <-busy }()
			handle(w, r)
		default:
			sentence(w, http.StatusTooManyRequests, "another one is under way; come back when it has ended")
		}
	}
}
