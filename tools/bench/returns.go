package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// bareReturns returns how long so many returns to a leader take that consist of what can't be left out: a connection, a
// session of TLS that is taken up, and two records each way. A few are made at once, and this process has both ends.
func bareReturns(ctx context.Context, agents int) (took time.Duration, err error) {
	p, err := newProof()
	if err != nil {
		return 0, err
	}
	authority, err := p.key.Authority()
	if err != nil {
		return 0, err
	}
	master, unsigned := authority.Issue(trust.Identity{Kind: trust.Master, Name: "bare"}, time.Now())
	inner, err := transport.ListenTCP("127.0.0.1:0")
	if err = errors.Join(err, unsigned); err != nil {
		return 0, err
	}
	serving := new(errgroup.Group)
	defer func() { err = errors.Join(err, inner.Close(), serving.Wait()) }()
	listener := trust.NewHolder(master).Listener(inner, trust.Door{Tickets: p.key})
	serving.Go(func() error {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return nil //nolint:nilerr // the listener was closed
			}
			serving.Go(func() error { return answerTwice(conn) })
		}
	})
	comeBack := func() error {
		conn, err := p.dialer()(ctx, inner.Addr().String())
		if err != nil {
			return err
		}
		defer conn.Close()
		record := make([]byte, bareBytes)
		for range 2 {
			if _, err := conn.Write(record); err != nil {
				return err
			}
			if _, err := io.ReadFull(conn, record); err != nil {
				return err
			}
		}
		return nil
	}
	if err := comeBack(); err != nil { // there is no session yet
		return 0, err
	}
	began := time.Now()
	var coming errgroup.Group
	coming.SetLimit(shakingMax)
	for range agents {
		coming.Go(comeBack)
	}
	err = coming.Wait()
	took = time.Since(began)
	row(fmt.Sprintf("%d agents: connections with a session of TLS that is taken up, and two records each way", agents), fmt.Sprintf("%.2f s", took.Seconds()), "nothing else, in one process")
	return took, err
}

// answerTwice sends two records back.
func answerTwice(conn net.Conn) error {
	defer conn.Close()
	record := make([]byte, bareBytes)
	for range 2 {
		if _, err := io.ReadFull(conn, record); err != nil {
			return err
		}
		if _, err := conn.Write(record); err != nil {
			return err
		}
	}
	return nil
}
