package client_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
)

// TestAClientIsToldOfTheOtherMasters: the master that answers names the others, and the client goes on without it.
func TestAClientIsToldOfTheOtherMasters(t *testing.T) {
	for name, c := range map[string]struct {
		named string
		says  []string
		want  []string
	}{
		"the leader is tried first":      {"m1:5060", []string{"m1:5060", "m2:5060"}, []string{"m2:5060", "m1:5060"}},
		"reached by another address":     {"gate:5060", []string{"m1:5060", "m2:5060"}, []string{"gate:5060", "m2:5060", "m1:5060"}},
		"what is no address is no news":  {"m1:5060", []string{"m1:5060", "m2 "}, nil},
		"who says nothing says no news":  {"m1:5060", nil, nil},
		"who names too many is not read": {"m1:5060", slices.Repeat([]string{"m2:5060"}, 65), nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var gone atomic.Bool
				n := newNetwork()
				n.view = &apiv1.ClusterView{LeaderAddress: "m2:5060", MasterAddresses: c.says}
				n.add(t, c.named[:len(c.named)-len(":5060")], func() error {
					if gone.Load() {
						return status.Error(codes.Unavailable, "gone")
					}
					return nil
				})
				n.add(t, "m2", leads)
				var told [][]string // used by one goroutine at a time
				asking, err := client.New(client.Config{
					Masters: []string{c.named}, Dial: n.dial, Told: func(masters []string) { told = append(told, masters) },
				})
				if err != nil {
					t.Fatal(err)
				}
				read := func() string {
					answer, err := asking.Operator().GetCluster(t.Context(), &apiv1.GetClusterRequest{})
					if err != nil {
						return err.Error()
					}
					return answer.GetLeaderId()
				}
				read()
				synctest.Wait()
				if c.want != nil && (len(told) != 1 || !slices.Equal(told[0], c.want)) || c.want == nil && told != nil {
					t.Errorf("it was told of %v, want %v", told, c.want)
				}
				gone.Store(true)
				if by := read(); (by == "m2") != (c.want != nil) {
					t.Errorf("without the first one, it is answered by %q", by)
				}
				if err := asking.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
