package framework

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/lookout"
	"github.com/tenderhq/tender/internal/protocol"
)

// leave plays a master that goes away just when a stream is opened: it says that it has not read the stream (GOAWAY).
func leave(conn net.Conn) {
	const preface, header, headers = 24, 9, 1
	if _, err := io.CopyN(io.Discard, conn, preface); err != nil {
		return
	}
	go func() { _, _ = conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) }() // SETTINGS
	for frame := make([]byte, header); ; {
		if _, err := io.ReadFull(conn, frame); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, conn, int64(frame[0])<<16|int64(frame[1])<<8|int64(frame[2])); err != nil {
			return
		}
		if frame[3] == headers {
			go func() { _, _ = conn.Write([]byte{0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}) }() // GOAWAY after stream 0
		}
	}
}

// A session whose master leaves before it has read anything ends at once. gRPC must not open the stream anew while
// reader and writer use it: one of them would then wait for the other without any deadline.
func TestASessionEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		config := Config{Dialer: func(ctx context.Context, _ string) (net.Conn, error) {
			if dials++; dials > 1 {
				<-ctx.Done() // a host that is away answers nothing
				return nil, ctx.Err()
			}
			ours, theirs := net.Pipe()
			go leave(theirs)
			return ours, nil
		}}
		began := time.Now()
		l, err := dial(t.Context(), config, lookout.Config{Own: "m1:5060"}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		synctest.Wait() // until the reader has seen that it left
		l.out.put(1, protocol.SchedulerHeartbeat{})
		select {
		case <-l.heard:
			if took := time.Since(began); !api.Is(l.why, api.Unavailable) || took > 0 {
				t.Errorf("after %v: %v", took, l.why)
			}
		case <-time.After(time.Hour):
			t.Error("nobody says that the master has left")
		}
	})
}
