//go:build linux

package nearby_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/nearby"
)

// TestAnotherClusterInTheSamePlace: a process that has joined a cluster that has ended is told so once another one is
// announced there. Without an announcement, or with other errors, the error of dial is returned.
func TestAnotherClusterInTheSamePlace(t *testing.T) {
	where := address(t)
	foreign := api.E("trust.verify", api.Denied, "m1", &trust.ForeignError{Identity: trust.Identity{Cluster: "new"}, Own: "old"})
	refused := errors.New("connection refused")
	var trouble error
	reach := func(users nearby.Users) error {
		_, err := users.Dialer(func(context.Context, string) (net.Conn, error) { return nil, trouble }, "start it again")(t.Context(), where)
		return err
	}
	trouble = foreign
	if err := reach(me()); !errors.Is(err, foreign) || errors.Is(err, nearby.ErrReplaced) {
		t.Errorf("nobody announces the other one: %v", err)
	}
	withdraw, err := nearby.Announce(me(), []string{where}, "t2")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := withdraw(); err != nil {
			t.Error(err)
		}
	}()
	if err := reach(me()); !api.Is(err, api.Removed) || !errors.Is(err, nearby.ErrReplaced) || !errors.As(err, new(*trust.ForeignError)) || !strings.HasSuffix(err.Error(), "start it again") {
		t.Errorf("another one is announced: %v", err)
	}
	if err := reach(nil); !errors.Is(err, foreign) {
		t.Errorf("of nobody's clusters: %v", err)
	}
	trouble = refused
	if err := reach(me()); !errors.Is(err, refused) || api.Is(err, api.Removed) {
		t.Errorf("nobody is there: %v", err)
	}
	trouble = nil
	if err := reach(me()); err != nil {
		t.Errorf("all is well: %v", err)
	}
}
