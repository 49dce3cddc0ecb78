package run

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// explaining is an operator's service with explanations.
type explaining struct {
	apiv1.OperatorServiceClient
	sentences []string
}

func (e *explaining) Explain(context.Context, *apiv1.ExplainRequest, ...grpc.CallOption) (*apiv1.ExplainResponse, error) {
	return &apiv1.ExplainResponse{Framework: e.sentences}, nil
}

// The leader names the nearest agent first; a run reports that, and no more.
func TestTheNearestReason(t *testing.T) {
	s := tell(1, nil)
	config := s.config
	operator := &explaining{sentences: []string{"agent-2 fits and is full: web holds 3 of 4 cpus", "2 of 3 agents are too small"}}
	config.Operator = operator
	r := &runner{config: config, job: s.job}
	agents := []*apiv1.AgentView{{Id: "agent-2"}}
	if got := r.reason(t.Context(), agents); got != "waiting for resources: agent-2 fits and is full: web holds 3 of 4 cpus" {
		t.Errorf("got %q", got)
	}
	operator.sentences = nil
	if got := r.reason(t.Context(), agents); got != "waiting for resources" {
		t.Errorf("got %q", got)
	}
	if got := r.reason(t.Context(), nil); got != "waiting: no agent has registered yet" {
		t.Errorf("got %q", got)
	}
}

// A reason is reported once until another one holds. A number that changes is no other reason.
func TestAReasonIsSaidOnce(t *testing.T) {
	s := tell(1, nil)
	r := &runner{config: s.config}
	var last said
	for _, text := range []string{
		"agent-2 is full: web holds 3 of 4 cpus", "agent-2 is full: web holds 3.5 of 4 cpus", "it is filtered for 0.4s", "it is filtered for 12ms",
		"agent-2 is full: web holds 3 of 4 cpus", "agent-3 is full: web holds 3 of 4 cpus",
	} {
		r.say(&last, text)
	}
	same(t, s.said, "agent-2 is full: web holds 3 of 4 cpus", "it is filtered for 0.4s", "it is filtered for 12ms",
		"agent-2 is full: web holds 3 of 4 cpus", "agent-3 is full: web holds 3 of 4 cpus")
}

// If reasons alternate, each is reported once, as long as nothing else happens. An outage of the masters is something
// else.
func TestReasonsThatAlternate(t *testing.T) {
	s := tell(1, nil)
	r := &runner{config: s.config}
	for range 3 {
		r.sayCause("agent-2 fits and is full: web holds 3 of 4 cpus")
		r.sayCause("agent-1 is filtered for 0.4s")
		r.sayCause("ops comes first: its share is 12 %")
	}
	r.sayAnew("waiting for a master: m1 does not answer")
	r.sayAnew("waiting for a master: m1 does not answer")
	r.sayCause("agent-1 is filtered for 3s")
	r.sayCause("agent-1 is filtered for 2s")
	same(t, s.said, "agent-2 fits and is full: web holds 3 of 4 cpus", "agent-1 is filtered for 0.4s", "ops comes first: its share is 12 %",
		"waiting for a master: m1 does not answer", "agent-1 is filtered for 3s")
}

// TestARestIsNoWait: an instance that rests between two attempts, or leaves an agent where it has failed, waits for nothing
// that the masters could explain.
func TestARestIsNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tell(1, func(c *Config) { c.Restart = 10 })
		for _, task := range []string{"hello.0", "hello.0.again1", "hello.0.again2"} {
			same(t, s.offer(1), task)
			s.update(t, task, api.TaskFailed, 1)
			<-time.After(2 * time.Second)
		}
		same(t, s.offer(1)) // it leaves agent-1
		if idle := s.idle(time.Now()); idle != 0 {
			t.Errorf("it has waited for %v", idle)
		}
		<-time.After(time.Minute)
		if idle := s.idle(time.Now()); idle == 0 || idle > time.Minute {
			t.Errorf("it has waited for %v", idle)
		}
	})
}
