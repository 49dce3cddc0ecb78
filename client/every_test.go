package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/wire"
)

// quorum makes these masters the members, each at the address of its name.
func (n *network) quorum(names ...string) {
	for _, name := range names {
		n.members = append(n.members, &apiv1.MasterView{Id: name, GrpcAddress: name + ":5060"})
	}
}

// everyone asks all masters, and returns those that have answered.
func everyone(t *testing.T, c *client.Client) (answered []string, silent []client.Silent, err error) {
	t.Helper()
	answers, silent, err := client.AskEvery(t.Context(), c, func(ctx context.Context, master grpc.ClientConnInterface) (*apiv1.ListChangesResponse, error) {
		return apiv1.NewOperatorServiceClient(master).ListChanges(ctx, &apiv1.ListChangesRequest{})
	})
	for _, answer := range answers {
		answered = append(answered, answer.GetMasterId())
	}
	return answered, silent, err
}

// TestEveryMasterIsAsked: the leader and the followers are asked, in no more time than one of them may take. The others
// are named with what is wrong with them.
func TestEveryMasterIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.add(t, "m1", leads)
		n.add(t, "m2", leads)
		n.add(t, "hangs", func() error { return errHangs })
		n.add(t, "old", func() error { return status.Error(codes.Unimplemented, "unknown method") })
		n.add(t, "lags", follows("m1:5060"))
		n.quorum("gone", "hangs", "lags", "m1", "m2", "old")
		n.members = append(n.members, &apiv1.MasterView{Id: "young"})
		began := time.Now()
		answered, silent, err := everyone(t, n.client(t, "m2:5060"))
		if want := []string{"m1", "m2"}; err != nil || !slices.Equal(answered, want) {
			t.Errorf("%v have answered, want %v: %v", answered, want, err)
		}
		if want := []client.Silent{
			{ID: "gone", Why: "connection refused"}, {ID: "hangs", Why: "does not answer"}, {ID: "lags", Why: "it has not heard yet that you may"},
			{ID: "old", Why: "its version does not know this call"}, {ID: "young", Why: "it has said no address yet"},
		}; !slices.Equal(silent, want) {
			t.Errorf("%v are silent, want %v", silent, want)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestAMasterBehindAGatewayIsAsked: it is asked at the address that the client was given, if it can't be reached at its
// own. A master that is reached at two addresses answers once.
func TestAMasterBehindAGatewayIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.add(t, "m1", leads)
		n.add(t, "m2", leads)
		n.listeners["gateway:5060"] = n.listeners["m1:5060"]
		n.listeners["second:5060"] = n.listeners["m2:5060"]
		delete(n.listeners, "m1:5060")
		n.quorum("m1", "m2")
		answered, silent, err := everyone(t, n.client(t, "gateway:5060", "second:5060"))
		if !slices.Equal(answered, []string{"m1", "m2"}) || len(silent) > 0 || err != nil {
			t.Errorf("%v have answered, %v have not: %v", answered, silent, err)
		}
	})
}

// TestNoMasterThatIsAskedAnswers: the error is the leader's, else a follower's, else it says which masters are down.
func TestNoMasterThatIsAskedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.add(t, "m1", follows("m2:5060"))
		n.add(t, "m2", func() error { return refusal(apiv1.ErrorKind_DENIED, "", "you may not") })
		n.add(t, "m3", follows("m2:5060"))
		n.quorum("m1", "m2", "m3")
		if answered, _, err := everyone(t, n.client(t, "m1:5060")); !api.Is(err, api.Denied) || len(answered) > 0 {
			t.Errorf("%v have answered: %v", answered, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.add(t, "m1", func() error { return status.Error(codes.Unimplemented, "unknown method") })
		n.quorum("m1", "m2")
		_, _, err := everyone(t, n.client(t, "m1:5060"))
		if away := (*client.Unreachable)(nil); !errors.As(err, &away) || away.Tried != "m1 (its version does not know this call), m2 (connection refused)" {
			t.Errorf("nobody has: %v", err)
		}
	})
}

// TestAMasterThatSaysWhenToComeBackIsAskedThen: it is asked once more at that time.
func TestAMasterThatSaysWhenToComeBackIsAskedThen(t *testing.T) {
	for times, want := range map[int]int{1: 1, 2: 0} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork()
			left := times
			n.add(t, "m1", func() error {
				if left--; left >= 0 {
					return wire.Status(api.E("call", api.Limit, "", errors.New("too much at once")).RetryIn(time.Second))
				}
				return nil
			})
			n.quorum("m1")
			if answered, _, err := everyone(t, n.client(t, "m1:5060")); len(answered) != want || (err == nil) != (want == 1) {
				t.Errorf("refused %d times: %v, %v", times, answered, err)
			}
		})
	}
}
