package memnet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipeBytesMax is how many bytes may be under way in one direction; a writer of more waits.
const pipeBytesMax = 64 << 10

// conn is one end of a connection.
type conn struct {
	net           *Net
	local, remote string
	in, out       *pipe
}

// pair makes both ends; the caller holds n.mu.
func (n *Net) pair(near, far string) (*conn, *conn) {
	there, back := newPipe(n.delay), newPipe(n.delay)
	a := &conn{net: n, local: near, remote: far, in: back, out: there}
	b := &conn{net: n, local: far, remote: near, in: there, out: back}
	n.conns[a], n.conns[b] = true, true
	return a, b
}

func (c *conn) Read(p []byte) (int, error) {
	count, err := c.in.read(p)
	return count, c.wrap("read", err)
}

func (c *conn) Write(p []byte) (int, error) {
	count, err := c.out.write(p)
	return count, c.wrap("write", err)
}

func (c *conn) wrap(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: "mem", Source: addr(c.local), Addr: addr(c.remote), Err: err}
}

// Close ends this side; the other reads what is under way, then EOF.
func (c *conn) Close() error {
	c.out.closeWriter()
	c.in.closeReader()
	c.net.forget(c)
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return addr(c.local) }
func (c *conn) RemoteAddr() net.Addr { return addr(c.remote) }

func (c *conn) SetDeadline(t time.Time) error {
	c.in.reading.set(c.in, t)
	c.out.writing.set(c.out, t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.reading.set(c.in, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.writing.set(c.out, t)
	return nil
}

// pipe is one direction of a connection.
type pipe struct {
	mu      sync.Mutex
	changed *sync.Cond
	bytes   []byte
	arrived int                  // how many of bytes have arrived; all of them without a delay
	delay   func() time.Duration // nil: none
	cut     bool                 // nothing arrives, not even the end
	ended   bool                 // the writer has closed
	gone    bool                 // the reader has closed
	broken  bool                 // it was reset: both sides fail
	reading deadline
	writing deadline
}

func newPipe(delay func() time.Duration) *pipe {
	p := &pipe{delay: delay}
	p.changed = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) read(into []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.gone:
			return 0, net.ErrClosed
		case p.broken:
			return 0, syscall.ECONNRESET
		case p.reading.passed():
			return 0, os.ErrDeadlineExceeded
		case len(into) == 0:
			return 0, nil
		case p.cut:
		case p.arrived > 0:
			n := copy(into, p.bytes[:p.arrived])
			p.bytes = p.bytes[:copy(p.bytes, p.bytes[n:])]
			p.arrived -= n
			p.changed.Broadcast()
			return n, nil
		case p.ended && len(p.bytes) == 0:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
}

func (p *pipe) write(from []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	written := 0
	for {
		switch {
		case p.ended:
			return written, net.ErrClosed
		case p.broken:
			return written, syscall.ECONNRESET
		case p.gone && !p.cut:
			return written, syscall.EPIPE
		case p.writing.passed():
			return written, os.ErrDeadlineExceeded
		case len(from) == 0:
			return written, nil
		case len(p.bytes) < pipeBytesMax:
			n := min(len(from), pipeBytesMax-len(p.bytes))
			p.bytes = append(p.bytes, from[:n]...)
			from, written = from[n:], written+n
			p.send(n)
		default:
			p.changed.Wait()
		}
	}
}

// send makes the n bytes that were written last arrive after their delay. Arrivals are only counted, so bytes keep
// their order whatever their delays. The caller holds p.mu.
func (p *pipe) send(n int) {
	var delay time.Duration
	if p.delay != nil {
		delay = p.delay()
	}
	if delay <= 0 {
		p.arrived += n
		p.changed.Broadcast()
		return
	}
	time.AfterFunc(delay, func() { p.change(func() { p.arrived += n }) })
}

// change makes a change and wakes those who wait for one.
func (p *pipe) change(what func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	what()
	p.changed.Broadcast()
}

func (p *pipe) setCut(cut bool) { p.change(func() { p.cut = cut }) }
func (p *pipe) reset()          { p.change(func() { p.broken = true }) }
func (p *pipe) closeWriter()    { p.change(func() { p.ended = true; p.writing.stop() }) }
func (p *pipe) closeReader()    { p.change(func() { p.gone = true; p.reading.stop() }) }

// deadline is a deadline of one side; the pipe's lock guards it.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

func (d *deadline) set(p *pipe, at time.Time) {
	p.change(func() {
		d.stop()
		d.at = at
		if !at.IsZero() {
			d.timer = time.AfterFunc(time.Until(at), func() { p.change(func() {}) })
		}
	})
}
