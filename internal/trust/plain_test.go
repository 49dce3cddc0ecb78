package trust_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/wire"
)

// TestWhoIsHungUpOnIsToldWhy: a side with certificates ends a connection without them, by an end or by a reset, as the
// kernel finds it. People are told the same of both.
func TestWhoIsHungUpOnIsToldWhy(t *testing.T) {
	var nobody *trust.Holder
	dial := nobody.Dialer(func(context.Context, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		return ours, theirs.Close()
	}, trust.Master)
	conn, err := dial(t.Context(), "m1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !strings.Contains(wire.Error(err).Error(), trust.HungUp) {
		t.Errorf("told is %v", wire.Error(err))
	}
}
