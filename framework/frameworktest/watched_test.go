package frameworktest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/internal/testing/witness"
)

// watched is a story's cluster with those who watch it: one at the leader, and at the next one after each failover, as
// package client does it, and two that stay at one master, whether it leads or follows.
type watched struct {
	c      *frameworktest.Handle
	client *client.Client
	court  *witness.Court
	copies []*witness.Witness // those who keep a copy of everything
	stop   context.CancelFunc
}

// watchedBy has a cluster watched until end is called. The seed says who stays where.
func watchedBy(c *frameworktest.Handle, masters int, seed uint64) *watched {
	ctx, stop := context.WithCancel(c.T().Context())
	w := &watched{c: c, stop: stop}
	w.court = &witness.Court{Broken: func(format string, args ...any) {
		c.T().Errorf("at %v: %s", c.Now(), fmt.Sprintf(format, args...))
	}}
	var err error
	if w.client, err = client.New(client.Config{Masters: c.MasterAddresses(), Dial: c.Dial}); err != nil {
		c.T().Fatal(err)
	}
	w.copies = append(w.copies, w.court.Move(ctx, "who moves to the leader", &apiv1.WatchRequest{}, w.client))
	for i, only := range []bool{true, false} {
		number := 1 + (int(seed)+i)%masters
		stays := w.court.Stay(ctx, fmt.Sprintf("who stays at master %d (only events: %v)", number, only),
			&apiv1.WatchRequest{EventsOnly: only}, func() *grpc.ClientConn { return w.connect(c.MasterAddresses()[number-1]) })
		if !only {
			w.copies = append(w.copies, stays)
		}
	}
	return w
}

// connect connects to one master; a silent connection ends.
func (w *watched) connect(address string) *grpc.ClientConn {
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithContextDialer(w.c.Dial))
	if err != nil {
		w.c.T().Fatal(err)
	}
	return conn
}

// rests checks that what those who watch know comes to equal the lists, once the cluster is at rest.
func (w *watched) rests() {
	differs := errors.New("nobody has looked")
	defer func() {
		if differs != nil {
			w.c.T().Log(differs)
		}
	}()
	w.c.AwaitFor(time.Minute, "those who watch to know what there is (R68)", func() bool {
		operator := w.c.Operator()
		if operator == nil {
			return false
		}
		differs = nil
		for _, one := range w.copies {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			differs = errors.Join(differs, one.Differs(ctx, operator))
			cancel()
		}
		return differs == nil
	})
}

func (w *watched) end() {
	w.stop()
	w.court.Wait()
	_ = w.client.Close()
}
