package master

import (
	"context"

	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/internal/intake"
)

// storeWriteBytesMax bounds the writes to stores that are on their way to the quorum, so
// that they fill neither its queue nor the time between two commits of others; more wait.
// A small one counts as storeWriteBytesMin.
const (
	storeWriteBytesMax = 4 << 20
	storeWriteBytesMin = 32 << 10
)

// writeStore is request for a write of so many bytes. It counts as under way until the
// quorum has answered, also when its caller has given up.
func (l *leader) writeStore(ctx context.Context, op string, action core.StoreWrite, bytes int) (any, error) {
	weight := min(max(bytes, storeWriteBytesMin), storeWriteBytesMax)
	if !l.writes.Take(ctx, l.over, intake.SenderOf(ctx), weight) {
		return nil, l.notSent(ctx, op)
	}
	reply := make(chan core.Reply, 1)
	arrived := l.requested(action, reply)
	arrived.bytes = bytes
	if !l.send(ctx, l.inbox.Stores, arrived) {
		l.writes.Give(weight)
		return nil, l.notSent(ctx, op)
	}
	r, came := l.replied(ctx, reply)
	if came {
		l.writes.Give(weight)
		return r.Answer, asError(r.Err)
	}
	l.beside(func() {
		defer l.writes.Give(weight)
		select {
		case <-reply:
		case <-l.over:
		}
	})
	return nil, l.noReply(ctx, op)
}
