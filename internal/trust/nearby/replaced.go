package nearby

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
)

// ErrReplaced means that the cluster of `tender dev` that was joined has ended and another one has taken its place.
// Trying again is of no use, because the authority of a cluster ends with it.
var ErrReplaced = errors.New("the cluster of 'tender dev' that was joined has ended")

// replacedError is ErrReplaced with what to do, and with the refusal that shows it.
type replacedError struct {
	remedy  string
	foreign *trust.ForeignError
}

func (e replacedError) Error() string {
	return fmt.Sprintf("%v, and another one runs there now: %s", ErrReplaced, e.remedy)
}

func (e replacedError) Unwrap() []error { return []error{ErrReplaced, e.foreign} }

// Dialer returns dial for a process that may have joined a cluster of `tender dev`, and verifies masters by its
// authority. If a master of another cluster is at the address, and one of these users announces a cluster there, the
// error is ErrReplaced, of kind Removed, with the remedy. Without an announcement the cluster may come back, so the
// error of dial is returned.
func (u Users) Dialer(dial trust.Dial, remedy string) trust.Dial {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if foreign := (*trust.ForeignError)(nil); errors.As(err, &foreign) && Token(u, []string{address}) != "" {
			err = api.E("nearby", api.Removed, address, replacedError{remedy, foreign})
		}
		return conn, err
	}
}
