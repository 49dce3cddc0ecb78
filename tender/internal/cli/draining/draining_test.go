package draining_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/tender/internal/cli/draining"
)

// masters accept every mark, and answer each watch with the next of the stories. The last story ends with its context.
type masters struct {
	apiv1.OperatorServiceClient
	marked  []string
	stories [][]*apiv1.WatchAgentsResponse
	watched [][]string // the agents that were watched, each time
}

func (m *masters) MarkAgent(_ context.Context, r *apiv1.MarkAgentRequest, _ ...grpc.CallOption) (*apiv1.ActionResponse, error) {
	m.marked = append(m.marked, r.GetAgentId())
	return &apiv1.ActionResponse{Message: "agent " + r.GetAgentId() + " is draining"}, nil
}

func (m *masters) WatchAgents(
	ctx context.Context, r *apiv1.WatchAgentsRequest, _ ...grpc.CallOption,
) (grpc.ServerStreamingClient[apiv1.WatchAgentsResponse], error) {
	m.watched = append(m.watched, r.GetAgentIds())
	if len(m.stories) == 0 {
		return nil, api.E("operator.watch", api.Unavailable, "", errors.New("nobody leads"))
	}
	story := m.stories[0]
	m.stories = m.stories[1:]
	return &told{ctx: ctx, story: story}, nil
}

// told is a stream that tells a story; nil in the story means that the leader no longer leads.
type told struct {
	grpc.ClientStream
	ctx   context.Context
	story []*apiv1.WatchAgentsResponse
}

func (s *told) Recv() (*apiv1.WatchAgentsResponse, error) {
	if len(s.story) == 0 {
		<-s.ctx.Done()
		return nil, s.ctx.Err()
	}
	message := s.story[0]
	s.story = s.story[1:]
	if message == nil {
		return nil, api.E("operator.watch", api.NotLeader, "", errors.New("this master leads no more"))
	}
	return message, nil
}

// is returns an agent with tasks and marks.
func is(id string, tasks int32, marks ...string) *apiv1.AgentView {
	return &apiv1.AgentView{Id: id, State: "RUNNING", Tasks: tasks, Marks: marks}
}

func news(complete bool, items ...*apiv1.AgentView) *apiv1.WatchAgentsResponse {
	return &apiv1.WatchAgentsResponse{Items: items, Complete: complete}
}

// drain runs a drain, and returns its output in order.
func drain(t *testing.T, m *masters, atATime int, agents ...*apiv1.AgentView) (said []string, err error) {
	t.Helper()
	err = draining.Run(t.Context(), draining.Config{
		Operator: m, Agents: agents, Request: &apiv1.MarkAgentRequest{}, AtATime: atATime,
		Say:     func(sentence string) { said = append(said, sentence) },
		Drained: func(agent *apiv1.AgentView, _, _ int) { said = append(said, agent.GetId()+" is drained") },
	})
	return said, err
}

// TestDrainHearsOfEachStep: the next agent begins when the leader says that the one before is empty. What was told
// about an agent before its mark is not believed: each mark begins a new watch. A watch that ends with its leader is
// opened again.
func TestDrainHearsOfEachStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &masters{stories: [][]*apiv1.WatchAgentsResponse{
			{news(true, is("a1", 2, "draining")), news(true, is("a1", 1, "draining")), nil},
			{news(true, is("a1", 0, "draining", "drained"))},
			{news(true, is("a2", 0, "draining", "drained"))},
		}}
		said, err := drain(t, m, 1, is("a1", 2), is("a2", 0))
		want := []string{"agent a1 is draining", "waiting: a1 has 2 tasks", "a1 is drained", "agent a2 is draining", "a2 is drained"}
		if err != nil || !slices.Equal(said, want) {
			t.Errorf("it says %q and ends with %v, not %q", said, err, want)
		}
		if !slices.Equal(m.marked, []string{"a1", "a2"}) || len(m.watched) != 3 || !slices.Equal(m.watched[2], []string{"a2"}) {
			t.Errorf("marked %v, watched %v", m.marked, m.watched)
		}
	})
}

// TestDrainOfWhatIsGoneMeanwhile: agents that were removed, taken back or given up are named at the end, when the
// others are empty. An agent that is missing in the first picture of all agents was removed before.
func TestDrainOfWhatIsGoneMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &masters{stories: [][]*apiv1.WatchAgentsResponse{{
			news(false, is("a1", 0, "draining"), is("a2", 0, "draining")), news(true, is("a3", 0, "draining")),
			{RemovedIds: []string{"a1"}}, news(true, is("a2", 1)), news(true, is("a3", 0, "draining", "drained")),
		}}}
		_, err := drain(t, m, 0, is("a1", 0), is("a2", 0), is("a3", 0), is("a4", 0))
		for _, want := range []string{"1 of 4 agents are drained", "agent a1 is no more", "agent a2 is offered again", "agent a4 is no more"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("no %q in %v", want, err)
			}
		}
	})
}
