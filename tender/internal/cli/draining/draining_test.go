package draining_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/tender/internal/cli/draining"
)

// masters accept every mark, and tell a story to who watches. A part of the story that has a mark waits for that.
type masters struct {
	apiv1.OperatorServiceClient
	marked []string
	mark   chan string // the marks, for the story
	story  []*apiv1.WatchResponse
	err    error // ends the story; nil: it goes on until the end of the context
}

func (m *masters) MarkAgent(_ context.Context, r *apiv1.MarkAgentRequest, _ ...grpc.CallOption) (*apiv1.ActionResponse, error) {
	m.marked = append(m.marked, r.GetAgentId())
	m.mark <- r.GetAgentId()
	return &apiv1.ActionResponse{Message: "agent " + r.GetAgentId() + " is draining"}, nil
}

// watch tells the story. What says that an agent is draining for the first time waits for its mark.
func (m *masters) watch(ctx context.Context, _ *apiv1.WatchRequest) iter.Seq2[*apiv1.WatchResponse, error] {
	return func(yield func(*apiv1.WatchResponse, error) bool) {
		marked := map[string]bool{}
		for _, news := range m.story {
			for _, item := range news.GetItems() {
				for id := item.GetAgent().GetId(); slices.Contains(item.GetAgent().GetMarks(), "draining") && !marked[id]; {
					marked[<-m.mark] = true
				}
			}
			if !yield(news, nil) {
				return
			}
		}
		if m.err != nil {
			yield(nil, m.err)
			return
		}
		<-ctx.Done()
		yield(nil, ctx.Err())
	}
}

// is returns an agent with tasks and marks.
func is(id string, tasks int32, marks ...string) *apiv1.AgentView {
	return &apiv1.AgentView{Id: id, State: "RUNNING", Tasks: tasks, Marks: marks}
}

func news(complete bool, items ...*apiv1.AgentView) *apiv1.WatchResponse {
	told := &apiv1.WatchResponse{Complete: complete}
	for _, item := range items {
		told.Items = append(told.Items, &apiv1.Change{View: &apiv1.Change_Agent{Agent: item}})
	}
	return told
}

// drain runs a drain, and returns its output in order.
func drain(t *testing.T, m *masters, atATime int, agents ...*apiv1.AgentView) (said []string, err error) {
	t.Helper()
	m.mark = make(chan string, len(agents))
	err = draining.Run(t.Context(), draining.Config{
		Operator: m, Watch: m.watch, Agents: agents, Request: &apiv1.MarkAgentRequest{}, AtATime: atATime,
		Say:     func(sentence string) { said = append(said, sentence) },
		Drained: func(agent *apiv1.AgentView, _, _ int) { said = append(said, agent.GetId()+" is drained") },
	})
	return said, err
}

// TestDrainHearsOfEachStep: the next agent begins when the one before is empty. What the watch told about an agent
// before its mark is not believed.
func TestDrainHearsOfEachStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &masters{story: []*apiv1.WatchResponse{
			news(true, is("a1", 2, "draining"), is("a2", 0)), news(true, is("a1", 1, "draining")),
			news(true, is("a1", 0, "draining", "drained")), news(true, is("a2", 0)), news(true, is("a2", 0, "draining", "drained")),
		}}
		said, err := drain(t, m, 1, is("a1", 2), is("a2", 0))
		want := []string{"agent a1 is draining", "waiting: a1 has 2 tasks", "a1 is drained", "agent a2 is draining", "a2 is drained"}
		said = slices.DeleteFunc(said, func(text string) bool { return text == "waiting: a2 is empty, and is being marked drained" })
		if err != nil || !slices.Equal(said, want) {
			t.Errorf("it says %q and ends with %v, not %q", said, err, want)
		}
		if !slices.Equal(m.marked, []string{"a1", "a2"}) {
			t.Errorf("marked %v", m.marked)
		}
	})
}

// TestDrainOfWhatIsGoneMeanwhile: agents that were removed, taken back or given up are named at the end, when the
// others are empty. So is one that is missing in the state, because it was removed before; and after a change of leaders
// the new leader's state is believed. One that was taken back before the watch began shows in its first state.
func TestDrainOfWhatIsGoneMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := news(true, is("a3", 0, "draining"), is("a5", 0))
		again.Missed = "another master leads"
		atOnce := news(true, is("a6", 0)) // both in one batch, so that only the latter has a view
		atOnce.Items[0].Event = &apiv1.Event{Kind: "agent", Name: "a6", What: "reactivated"}
		atOnce.Items = append([]*apiv1.Change{{Event: &apiv1.Event{Kind: "agent", Name: "a6", What: "draining"}}}, atOnce.Items...)
		m := &masters{story: []*apiv1.WatchResponse{
			news(false, is("a1", 0, "draining"), is("a2", 0, "draining")), news(true, is("a3", 0, "draining"), is("a5", 0, "draining"), is("a6", 0, "draining"), is("a7", 0)),
			{Items: []*apiv1.Change{{Removed: "agent/a1"}}}, news(true, is("a2", 1)), atOnce, again,
			news(true, is("a3", 0, "draining", "drained")),
		}}
		_, err := drain(t, m, 0, is("a1", 0), is("a2", 0), is("a3", 0), is("a4", 0), is("a5", 0), is("a6", 0), is("a7", 0))
		for _, want := range []string{"1 of 7 agents are drained", "agent a6 is offered again", "agent a7 is offered again", "agent a1 is no more", "agent a2 is offered again", "agent a4 is no more", "agent a5 is offered again"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("no %q in %v", want, err)
			}
		}
	})
}

// TestDrainWithoutTheRight: a watch that fails ends the drain with its error.
func TestDrainWithoutTheRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &masters{err: api.E("watch", api.Denied, "ann", errors.New("may not watch"))}
		if _, err := drain(t, m, 0, is("a1", 0)); !api.Is(err, api.Denied) {
			t.Errorf("it ends with %v", err)
		}
	})
}

// TestAHostThatHasComeBackIsDrained: a hostname means the agent that is there now, not one that is gone.
func TestAHostThatHasComeBackIsDrained(t *testing.T) {
	gone, back := is("agent-3", 0, "gone"), is("agent-6", 0)
	gone.Hostname, back.Hostname = "a2", "a2"
	for want, all := range map[*apiv1.AgentView][]*apiv1.AgentView{back: {gone, back}, gone: {gone}} {
		if chosen, err := draining.Choose(all, []string{"a2"}, nil); err != nil || len(chosen) != 1 || chosen[0] != want {
			t.Errorf("of %v, a2 means %v: %v", all, chosen, err)
		}
	}
}
