//go:build unix

package trust_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/testing/processor"
	"github.com/tenderhq/tender/internal/trust"
)

// BenchmarkHandshake measures what both ends of a connection do until each knows the other: with a new session, and
// with a resumed one, as when agents come back to another leader.
func BenchmarkHandshake(b *testing.B) {
	key := trust.NewKey()
	ca, err := key.Authority()
	if err != nil {
		b.Fatal(err)
	}
	pass := func(kind trust.Kind, name string) *trust.Pass {
		p, err := ca.Issue(trust.Identity{Kind: kind, Name: name}, time.Now())
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	server := trust.NewHolder(pass(trust.Master, "m1")).Server(trust.Door{Tickets: key})
	agent := pass(trust.Agent, "a1")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	for name, holder := range map[string]func(*trust.Holder) *trust.Holder{
		"anew":     func(*trust.Holder) *trust.Holder { return trust.NewHolder(agent) },
		"taken up": func(h *trust.Holder) *trust.Holder { return h },
	} {
		b.Run(name, func(b *testing.B) {
			h, began := trust.NewHolder(agent), processor.Own(b)
			for b.Loop() {
				h = holder(h)
				near, far := dialed(b, listener)
				served := make(chan error, 1)
				go func() {
					conn := tls.Server(far, server)
					_, err := conn.Write([]byte("!"))
					served <- err
				}()
				conn, err := h.Dialer(func(context.Context, string) (net.Conn, error) { return near, nil })(b.Context(), "there")
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
					b.Fatal(err)
				}
				if err := <-served; err != nil {
					b.Fatal(err)
				}
				_, _ = near.Close(), far.Close()
			}
			b.ReportMetric(float64((processor.Own(b)-began).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

// dialed returns both ends of a connection.
func dialed(b *testing.B, listener net.Listener) (near, far net.Conn) {
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	if far, err = listener.Accept(); err != nil {
		b.Fatal(err)
	}
	return near, far
}
