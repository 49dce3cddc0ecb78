package trust

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"time"
)

// Turns lets those who want the leader through the part of a handshake that takes processor time, a few at once. After a
// failover thousands come within some seconds. If all were computed for at once, whatever else a master does would wait
// among them; so they wait, each for the cost of its connection, and a master takes as many as it can.
type Turns chan struct{}

// NewTurns returns turns for as many as there are processors.
func NewTurns() Turns { return make(Turns, runtime.GOMAXPROCS(0)) }

// turnWaitMax is how long somebody waits for a turn. It is less than the time after which an agent gives up.
const turnWaitMax = 4 * time.Second

var errManyCome = errors.New("very many come at once")

// Handshake does the server's part of a handshake.
func (t Turns) Handshake(raw net.Conn, config *tls.Config) (*tls.Conn, error) {
	turn := &inTurn{Conn: raw, turns: t}
	defer turn.end()
	conn := tls.Server(turn, config)
	return conn, conn.Handshake()
}

// inTurn is a connection that may have a turn until its handshake ends, or something is written to it: then the server has
// computed its part. Until the handshake has ended, only its goroutine uses it.
type inTurn struct {
	net.Conn
	turns Turns
	has   bool
}

// wait takes a turn.
func (c *inTurn) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, turnWaitMax)
	defer cancel()
	select {
	case c.turns <- struct{}{}:
		c.has = true
		return nil
	case <-ctx.Done():
		return errManyCome
	}
}

func (c *inTurn) end() {
	if c.has {
		c.has = false
		<-c.turns
	}
}

// Write writes to the connection.
func (c *inTurn) Write(data []byte) (int, error) {
	defer c.end()
	return c.Conn.Write(data)
}
