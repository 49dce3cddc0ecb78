package agent

import (
	"context"
	"time"

	"github.com/tenderhq/tender/internal/allowance"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
)

// executorRate limits how much an executor may send on a stream: the bytes that its calls take in memory, and their
// prices. An executor that runs 2,500 short tasks a second sends some 9 MiB/s.
var executorRate = allowance.Rate{PerSecond: 32 << 20, Most: 64 << 20, First: 8 << 20}

// executorPrice returns the price of calls. A stream of an executor may send less than its agent may, so no single
// executor holds up its agent's session.
func executorPrice(calls []protocol.ExecutorCall) float64 {
	price := 0
	for _, call := range calls {
		switch call := call.(type) {
		case protocol.ExecutorHeartbeat:
			price += allowance.HeartbeatPrice
		case protocol.ExecutorStatus:
			price += allowance.StatusPrice
		case protocol.ExecutorMessage:
			price += allowance.MessagePrice + allowance.MessageBytePrice*len(call.Data)
		default: // other calls are free
		}
	}
	return float64(price)
}

// hold waits until what a stream has sent is paid for, so that nothing more is read from it meanwhile. If the context
// has ended, hold does not wait, so a stream that has ended is read to its end.
func (s *executorServer) hold(ctx context.Context, allowed *allowance.Allowance, amount float64) {
	if wait := allowed.Take(time.Now(), amount); wait > 0 {
		s.executors.metrics.held.Add(int64(wait))
		pause.For(ctx, wait)
	}
}
