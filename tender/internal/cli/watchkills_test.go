package cli_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/testing/witness"
)

// TestAWatchOutlivesKills: R68 on real processes. The leader is killed again and again, each time right behind a change
// that it has answered. Who watches through all of it, as programs do, and who resumes by cursor at one master, which is
// killed too, are told every event once and in order, or the gap; and their copies equal the lists at each rest. With
// TENDER_TEST_LONG there are twenty kills.
func TestAWatchOutlivesKills(t *testing.T) {
	kills := 3
	if os.Getenv("TENDER_TEST_LONG") != "" {
		kills = 20
	}
	d := startDev(t, "--masters", "3", "--agents", "1", "--master-processes", "--insecure")
	if _, stderr, code := tender(t, d.env, "run", "--detach", "--name", "kept", "--", "sleep", "1000"); code != 0 {
		t.Fatal(stderr)
	}
	var addresses []string
	for _, m := range d.Masters {
		addresses = append(addresses, m.GRPC)
	}
	c, err := client.New(client.Config{Masters: addresses, Dial: func(ctx context.Context, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	court := &witness.Court{Broken: t.Errorf}
	defer court.Wait()
	defer cancel()
	witnesses := []*witness.Witness{court.Move(ctx, "who moves", &apiv1.WatchRequest{}, c)}
	for _, address := range addresses {
		witnesses = append(witnesses, court.Stay(ctx, "who stays at "+address, &apiv1.WatchRequest{}, func() *grpc.ClientConn {
			conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Error(err)
			}
			return conn
		}))
	}
	for _, w := range witnesses {
		until(t, w.Name+" has begun", w.Copy.Whole)
	}
	for i := range kills {
		role := fmt.Sprintf("role%02d", i)
		if _, err := c.Operator().SetRole(ctx, &apiv1.SetRoleRequest{Role: role, Weight: proto.Float64(2)}); err != nil {
			t.Fatal(err)
		}
		cluster, err := c.Operator().GetCluster(ctx, &apiv1.GetClusterRequest{})
		if err != nil {
			t.Fatal(err)
		}
		now := described(t, d.dir)
		at := 0
		for i, m := range now.Masters {
			if m.ID == cluster.GetLeaderId() {
				at = i
			}
		}
		killed := now.Masters[at]
		if err := syscall.Kill(killed.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		until(t, "the killed master runs again", func() bool { return described(t, d.dir).Masters[at].PID != killed.PID })
		for _, w := range witnesses {
			until(t, w.Name+" knows of the next leader, and what the lists say", func() bool {
				roles := w.Copy.Roles()
				return leadersTold(w) > i && slices.ContainsFunc(roles, func(r *apiv1.RoleView) bool { return r.GetRole() == role }) && w.Differs(ctx, c.Operator()) == nil
			})
		}
	}
	for _, w := range witnesses {
		for i := range kills {
			told := slices.Contains(w.Whats(), fmt.Sprintf("role role%02d set", i))
			if !told && len(w.Missed()) == 0 {
				t.Errorf("%s was told neither that role%02d was set nor that something is missing", w.Name, i)
			}
		}
	}
}

// leadersTold counts of how many next leaders a witness was told: that they were elected, or that the last changes before
// may be missing.
func leadersTold(w *witness.Witness) int {
	return len(w.Missed()) + len(slices.DeleteFunc(w.Whats(), func(what string) bool { return !strings.HasPrefix(what, "election ") }))
}
