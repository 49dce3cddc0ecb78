package trust

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
)

// HungUp is the text for a connection without certificates that the other side ends before it has sent anything. A
// client that sends plain text to a TLS server sees nothing else.
const HungUp = "it hung up at once, as masters and agents with certificates do when the caller shows none; " +
	"come with a token: tender login, --join or TENDER_TOKEN"

// plainDialer opens connections without TLS.
func plainDialer(dial Dial) Dial {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		return &plain{Conn: conn}, nil
	}
}

// plain is a connection on which nobody proves anything.
type plain struct {
	net.Conn
	heard atomic.Bool // the other side has sent something
}

func (p *plain) Read(into []byte) (int, error) {
	n, err := p.Conn.Read(into)
	if n > 0 {
		p.heard.Store(true)
	} else if (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) && !p.heard.Load() {
		err = errors.New(HungUp + " (" + err.Error() + ")") // nobody is to take it for an end that was said
	}
	return n, err
}
