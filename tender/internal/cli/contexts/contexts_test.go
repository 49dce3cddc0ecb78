package contexts_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/tender/internal/cli/contexts"
)

// A login says at once why no master answers, and not only at the end of its patience.
func TestJoinTellsWhyItWaits(t *testing.T) {
	token, err := trust.NewKey().FirstToken()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var told error
	_, err = contexts.Join(ctx, []string{"m1:5060"},
		func(context.Context, string) (net.Conn, error) { return nil, errors.New("nobody listens") }, token,
		func(_ string, err error) { told = err; cancel() })
	if err == nil || told == nil || !strings.Contains(told.Error(), "m1:5060") || !strings.Contains(told.Error(), "nobody listens") {
		t.Errorf("told %v, and then %v", told, err)
	}
}
