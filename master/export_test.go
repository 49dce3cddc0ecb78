package master

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/direct"
	"github.com/tenderhq/tender/internal/testing/hang"
	"github.com/tenderhq/tender/internal/wire"
)

// AgentStream is an agent's end of its session.
type AgentStream = grpc.BidiStreamingClient[apiv1.AgentCalls, apiv1.AgentEvents]

// OpenAgent opens a session as an agent does, on a connection of its own, until ctx ends.
func OpenAgent(ctx context.Context, t testing.TB, dial wire.Dialer, address string) AgentStream {
	t.Helper()
	stream, err := direct.Open[apiv1.AgentCalls, apiv1.AgentEvents](ctx, dial, address, api.MessageBytesMax)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// WriteStore makes one write to a framework's store, and returns the version that its key has by it.
func WriteStore(ctx context.Context, store apiv1.StoreServiceClient, session *apiv1.StoreSession, write *apiv1.StoreWrite) (uint64, error) {
	answer, err := store.Write(ctx, &apiv1.StoreWriteRequest{Session: session, Writes: []*apiv1.StoreWrite{write}})
	if err != nil {
		return 0, err
	}
	if refused := wire.ErrorFromProto(answer.GetResults()[0].GetError()); refused != nil {
		return 0, refused
	}
	return answer.GetResults()[0].GetVersion(), nil
}

// UntilLeads waits until a master leads, and returns the term.
func UntilLeads(t testing.TB, m *Master) api.Term {
	t.Helper()
	for {
		changed := m.LeadershipChanged() // before looking, so that no change is missed
		if term, leads := m.Leading(); leads {
			return term
		}
		hang.Receive(t, fmt.Sprintf("a leadership of %s", m.ID()), func() string { return fmt.Sprintf("%+v", m.raft.Outline()) }, changed)
	}
}
