package core

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/registry"
)

// listener is a policy that only hears of use.
type listener struct {
	allocator.Allocator
	used api.Resources
}

func (l *listener) Use(_ api.AgentID, used api.Resources) { l.used = used }

// TestUseEndsWithTheSession: what an agent used before its stream broke must not lower what it is
// offered afterwards, when nothing of it runs any more.
func TestUseEndsWithTheSession(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	policy := &listener{}
	c := New(Config{}, registry.New(), api.Term{Number: 1}, policy, now)
	a := &agent{id: "agent-1"}
	a.link, a.meterStale = &link{}, newDeadline(nil)
	a.Total = api.Scalars(4, 4096)
	busy := protocol.UsageReport{Executors: map[api.ExecutorRef]api.Usage{
		{Framework: "framework-1", Executor: "x"}: {CPU: 4000, Mem: 1_024_000},
	}}
	c.usage.used(a, busy)
	if !policy.used.Equal(api.Scalars(4, 1024)) {
		t.Fatalf("the policy hears of %v", policy.used)
	}
	c.agents.dropLink(a, "its stream is broken")
	if !policy.used.IsZero() {
		t.Errorf("the session is over, and the policy still counts %v", policy.used)
	}
	a.link = &link{}
	c.usage.used(a, protocol.UsageReport{})
	if !policy.used.IsZero() {
		t.Errorf("an idle agent uses %v", policy.used)
	}
}
