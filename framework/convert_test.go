package framework

import (
	"testing"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

func callsFromProto(t testing.TB, m *apiv1.SchedulerCalls) []protocol.NumberedCall {
	calls, err := wire.SchedulerCallsFromProto(m)
	if err != nil {
		t.Errorf("the SDK sent what a master refuses: %v", err)
	}
	return calls
}

func eventsToProto(term api.Term, events []protocol.SchedulerEvent) *apiv1.SchedulerEvents {
	return wire.SchedulerEventsToProto(term, events)
}
