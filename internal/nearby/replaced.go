package nearby

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
)

// ErrReplaced says that the cluster of `tender dev` which somebody had joined has ended, and another one has its place. Whoever
// tries on tries for ever, as the authority of a cluster ends with it.
var ErrReplaced = errors.New("the cluster of 'tender dev' that was joined has ended")

// Dialer is dial for somebody who may have joined a cluster of `tender dev`, and knows masters by its authority. Where a master
// of another cluster is at the address, and these users announce one there, the error is ErrReplaced, of kind Removed, and
// says the remedy. Without an announcement nobody knows whether the cluster comes back, so it stays the error of dial.
func (u Users) Dialer(dial trust.Dial, remedy string) trust.Dial {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if foreign := (*trust.ForeignError)(nil); errors.As(err, &foreign) && Token(u, []string{address}) != "" {
			err = api.E("nearby", api.Removed, address, fmt.Errorf("%w, and another one runs there now: %s", ErrReplaced, remedy))
		}
		return conn, err
	}
}
