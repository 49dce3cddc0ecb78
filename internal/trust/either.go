package trust

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// tlsBegins is the first byte that a TLS client sends: that of a handshake record. No HTTP request begins with it.
const tlsBegins = 0x16

// either is a connection that uses TLS or plain text, depending on how the other side begins.
type either struct {
	net.Conn
	config *tls.Config

	once   sync.Once
	spoken net.Conn // the connection to read and write, once the first byte is known
	known  atomic.Bool
	err    error // why the first byte is not known
}

func (e *either) open() error {
	e.once.Do(func() {
		first := make([]byte, 1)
		if _, e.err = io.ReadFull(e.Conn, first); e.err != nil {
			return
		}
		begun := &begun{Conn: e.Conn, first: first}
		if e.spoken = begun; first[0] == tlsBegins {
			e.spoken = newSecured(tls.Server(begun, e.config))
		}
		e.known.Store(true)
	})
	return e.err
}

func (e *either) Read(into []byte) (int, error) {
	if err := e.open(); err != nil {
		return 0, err
	}
	return e.spoken.Read(into)
}

func (e *either) Write(text []byte) (int, error) {
	if err := e.open(); err != nil {
		return 0, err
	}
	return e.spoken.Write(text)
}

// Close ends a TLS connection with its closing message. A connection on which nothing has arrived is closed as it is,
// which also ends a wait for the first byte.
func (e *either) Close() error {
	if e.known.Load() {
		return e.spoken.Close()
	}
	return e.Conn.Close()
}

// shown returns the certificate that the other end has shown; nil: none.
func (e *either) shown() *x509.Certificate {
	if e.open() != nil {
		return nil
	}
	return shownOn(e.spoken)
}

// begun is a connection whose first bytes have been read already. Only one goroutine at a time reads it.
type begun struct {
	net.Conn
	first []byte
}

func (b *begun) Read(into []byte) (int, error) {
	if len(b.first) == 0 {
		return b.Conn.Read(into)
	}
	n := copy(into, b.first)
	b.first = b.first[n:]
	return n, nil
}
