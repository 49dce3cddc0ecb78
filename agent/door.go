package agent

import (
	"context"
	"errors"
	"net"
	"sync"
)

// door keeps a listener open through all lives of an agent: servers come and go, the
// address stays.
type door struct {
	net.Listener
	accepted chan net.Conn
	ended    chan struct{} // closed after err is set
	err      error
	once     sync.Once
}

func newDoor(listener net.Listener) *door {
	d := &door{Listener: listener, accepted: make(chan net.Conn), ended: make(chan struct{})}
	go d.accept()
	return d
}

func (d *door) accept() {
	defer close(d.ended)
	for {
		connection, err := d.Accept()
		if err != nil {
			d.err = err
			return
		}
		d.accepted <- connection
	}
}

// close ends the listener and turns away who stands before the door.
func (d *door) close() error {
	if d == nil {
		return nil
	}
	var err error
	d.once.Do(func() {
		if err = d.Listener.Close(); errors.Is(err, net.ErrClosed) {
			err = nil
		}
		for {
			select {
			case connection := <-d.accepted:
				connection.Close() //nolint:errcheck // nobody has read from it
			case <-d.ended:
				return
			}
		}
	})
	return err
}

// during is the listener for one server: it ends with the context.
func (d *door) during(ctx context.Context) net.Listener {
	ctx, cancel := context.WithCancel(ctx)
	return &visit{d, ctx, cancel}
}

type visit struct {
	door   *door
	ctx    context.Context //nolint:containedctx // a listener has no other way to be told
	cancel context.CancelFunc
}

func (v *visit) Accept() (net.Conn, error) {
	select {
	case connection := <-v.door.accepted:
		return connection, nil
	case <-v.door.ended:
		return nil, v.door.err
	case <-v.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (v *visit) Addr() net.Addr { return v.door.Addr() }

func (v *visit) Close() error {
	v.cancel()
	return nil
}
