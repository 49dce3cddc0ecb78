package master

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

const (
	// lagMax is how many entries a follower may be behind before the list says so.
	lagMax = 10_000
	// askIndexTimeout bounds the questions to all followers for one list.
	askIndexTimeout = time.Second
)

// dial makes a connection to another master.
func (m *Master) dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(m.config.Dial))
}

// askIndexes asks the other masters how far they have come. Who does not answer keeps none.
func (m *Master) askIndexes(ctx context.Context, views []*apiv1.MasterView) {
	ctx, cancel := context.WithTimeout(ctx, askIndexTimeout)
	defer cancel()
	reached := m.raft.Status().Applied
	var asked sync.WaitGroup
	for _, view := range views {
		if view.GetId() == string(m.config.ID) || view.GetGrpcAddress() == "" || view.GetState() == "unreachable" {
			continue
		}
		asked.Go(func() { m.askIndex(ctx, view, reached) })
	}
	asked.Wait()
}

func (m *Master) askIndex(ctx context.Context, view *apiv1.MasterView, reached uint64) {
	conn, err := m.dial(view.GetGrpcAddress())
	if err != nil {
		return
	}
	defer conn.Close()
	answer, err := apiv1.NewRaftServiceClient(conn).ListPeers(ctx, &apiv1.ListPeersRequest{})
	if err != nil {
		if view.Why == "" {
			view.Why = "it does not say how far it has come"
		}
		return
	}
	view.AppliedIndex = answer.GetAppliedIndex()
	if view.Why == "" {
		view.Why = lagging(view.GetAppliedIndex(), reached)
	}
}

// lagging is what the list says of a follower that has come so far, "" if that is far enough.
func lagging(applied, reached uint64) string {
	if applied+lagMax >= reached {
		return ""
	}
	return fmt.Sprintf("it lags: it has applied entry %d, and the leader was at %d", applied, reached)
}
