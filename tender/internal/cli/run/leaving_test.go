package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
)

// desk plays the masters' operator service: it answers, or says why nobody does.
type desk struct {
	apiv1.OperatorServiceClient
	trouble func() error
	cluster func() string // nil: the cluster is not told
}

func (d *desk) GetCluster(context.Context, *apiv1.GetClusterRequest, ...grpc.CallOption) (*apiv1.ClusterView, error) {
	if d.cluster == nil {
		return nil, d.trouble()
	}
	return &apiv1.ClusterView{ClusterId: d.cluster()}, nil
}

func (d *desk) ListMasters(context.Context, *apiv1.ListRequest, ...grpc.CallOption) (*apiv1.ListMastersResponse, error) {
	return &apiv1.ListMastersResponse{}, d.trouble()
}

func (d *desk) ListAgents(context.Context, *apiv1.ListRequest, ...grpc.CallOption) (*apiv1.ListAgentsResponse, error) {
	return &apiv1.ListAgentsResponse{}, d.trouble()
}

// interrupt watches a run with one launched task from its interrupt on.
func interrupt(t *testing.T, s *story, d *desk) chan error {
	t.Helper()
	s.offer(1)
	config := s.config
	config.Operator = d
	r := &runner{config: config, job: s.job}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan error, 1)
	go func() { done <- r.watch(ctx, make(chan error)) }()
	return done
}

func TestAnInterruptedRunLeavesMastersThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := tell(1, nil), time.Now()
		err := <-interrupt(t, s, &desk{trouble: func() error {
			return fmt.Errorf("cluster: %w", &client.Unreachable{Tried: "m1:5060 (connection refused)"})
		}})
		if !errors.As(err, new(*Pending)) || !strings.Contains(err.Error(), "1 task may still run") || !strings.Contains(err.Error(), "m1:5060 (connection refused)") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took < leaveAfter || took > leaveAfter+2*lookEvery {
			t.Errorf("took %v", took)
		}
		same(t, s.said, "ending 1 task; once more leaves at once",
			"waiting for a master, to end 1 task: no master answers: m1:5060 (connection refused); Ctrl-C leaves at once")
	})
}

func TestAnInterruptedRunLeavesAnAgentThatIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tell(1, nil)
		done := interrupt(t, s, &desk{trouble: func() error { return nil }})
		synctest.Wait() // it has said that it ends the task
		s.update(t, "hello.0", api.TaskUnreachable)
		if err := <-done; !errors.As(err, new(*Pending)) || !strings.Contains(err.Error(), "silent") {
			t.Errorf("got %v", err)
		}
	})
}

func TestAnInterruptedRunAwaitsASlowEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := tell(1, nil), time.Now()
		// Masters come and go; the patience begins anew each time one answers.
		done := interrupt(t, s, &desk{trouble: func() error {
			if time.Since(began)%(leaveAfter/2) < 2*lookEvery {
				return nil
			}
			return errors.New("an election")
		}})
		<-time.After(10 * leaveAfter)
		s.update(t, "hello.0", api.TaskKilled)
		if err := <-done; err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// Followers without a leader answer some requests; a run that gets no session says what it waits for.
func TestARunWithoutALeaderSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{}
		config := Config{Name: "hello", Role: api.DefaultRole, Instances: 1, Task: api.Task{Resources: api.Scalars(1, 100)}}
		config.Say = func(format string, args ...any) { s.said = append(s.said, fmt.Sprintf(format, args...)) }
		config.Warn = config.Say
		config.Operator = &desk{trouble: func() error { return &client.Unreachable{Leaderless: true, Tried: "m1:5060 (knows no leader)"} }}
		s.job = newJob(t.Context(), config, func(*attempt) {})
		r := &runner{config: config, job: s.job}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.watch(ctx, make(chan error)) }()
		<-time.After(2 * patience)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		same(t, s.said, "waiting for a master: the masters have no leader: m1:5060 (knows no leader)")
	})
}
