package agent

import (
	"context"
	"time"

	"github.com/tenderhq/tender/internal/allowance"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
)

// executorRate is how much a stream of an executor may say, in bytes that its calls take in memory, and their prices.
// An executor that runs 2,500 short tasks a second says some 9 MiB/s.
var executorRate = allowance.Rate{PerSecond: 32 << 20, Most: 64 << 20, First: 8 << 20}

// Prices of an executor's calls beside what they take in memory. The leader has the same for an agent's: what a
// stream of an executor may say is less than what its agent may, so no executor holds up its agent's session alone.
const (
	executorBeatPrice    = 32 << 10
	executorStatusPrice  = 1 << 10
	executorMessagePrice = 8 << 10
	executorBytePrice    = 16 // of a message
)

// executorPrice is what some calls cost.
func executorPrice(calls []protocol.ExecutorCall) float64 {
	price := 0
	for _, call := range calls {
		switch call := call.(type) {
		case protocol.ExecutorHeartbeat:
			price += executorBeatPrice
		case protocol.ExecutorStatus:
			price += executorStatusPrice
		case protocol.ExecutorMessage:
			price += executorMessagePrice + executorBytePrice*len(call.Data)
		default: // the others mean nothing here
		}
	}
	return float64(price)
}

// hold waits, and so lets nothing more be read from a stream, until what it said is paid for. A stream that has ended
// is read to its end.
func (s *executorServer) hold(ctx context.Context, allowed *allowance.Allowance, amount float64) {
	if wait := allowed.Take(time.Now(), amount); wait > 0 {
		s.agent.metrics.held.Add(int64(wait))
		pause.For(ctx, wait)
	}
}
