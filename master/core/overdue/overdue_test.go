package overdue_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core/overdue"
)

func always(api.AgentID) bool { return true }

// few agents of all are away.
func few() (away, all int) { return 1, 100 }

// TestOneAfterTheOther: the agent that has waited longest is given up first, and the next one some time later.
func TestOneAfterTheOther(t *testing.T) {
	var q overdue.Queue
	now := time.Unix(1000, 0)
	for _, id := range []api.AgentID{"agent-1", "agent-2", "agent-3"} {
		q.Add(id)
	}
	first := q.Next(now, always, few)
	if first.GiveUp != "agent-1" || !first.Again.After(now) {
		t.Fatalf("the first turn is %+v", first)
	}
	if soon := q.Next(first.Again.Add(-1), always, few); soon.GiveUp != "" || !soon.Again.Equal(first.Again) {
		t.Errorf("a turn too early is %+v", soon)
	}
	back := func(id api.AgentID) bool { return id != "agent-2" }
	if next := q.Next(first.Again, back, few); next.GiveUp != "agent-3" || q.Given() != 2 {
		t.Errorf("agent-2 is back, and the turn is %+v", next)
	}
	if last := q.Next(first.Again.Add(time.Hour), always, few); last != (overdue.Turn{}) {
		t.Errorf("nobody waits, and the turn is %+v", last)
	}
}

// TestManyAway: while many agents are away at once none is given up. There is one warning until that is over.
func TestManyAway(t *testing.T) {
	var q overdue.Queue
	now := time.Unix(1000, 0)
	q.Add("agent-1")
	q.Add("agent-2")
	many := func() (away, all int) { return 2, 7 }
	turn := q.Next(now, always, many)
	if turn.GiveUp != "" || turn.Warn == "" || turn.First != "agent-1" || q.Held() != turn.Warn {
		t.Fatalf("with 2 of 7 away the turn is %+v", turn)
	}
	if again := q.Next(turn.Again, always, many); again.GiveUp != "" || again.Warn != "" {
		t.Errorf("a minute later the turn is %+v", again)
	}
	quarter := func() (away, all int) { return 2, 8 }
	if over := q.Next(turn.Again, always, quarter); over.GiveUp != "agent-1" || q.Held() != "" {
		t.Errorf("with 2 of 8 away the turn is %+v", over)
	}
}
