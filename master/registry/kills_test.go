package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
)

// TestKillsAreKept: a kill that is asked for twice is kept once, each with its grace, and one agent has room for so many.
func TestKillsAreKept(t *testing.T) {
	s := New()
	done(t, s, AdmitAgent{Agent: api.Agent{Hostname: "h1"}, Nonce: "n1"})
	ref := func(i int) api.TaskRef { return api.TaskRef{Framework: "f1", Task: api.TaskID(fmt.Sprint("t", i))} }
	done(t, s, KeepKill{"agent-1", ref(0), 0})
	done(t, s, KeepKill{"agent-1", ref(0), 0})
	done(t, s, KeepKill{"agent-1", ref(0), time.Second})
	for i := 1; i < KillsMax-1; i++ {
		done(t, s, KeepKill{"agent-1", ref(i), 0})
	}
	refused(t, s, api.Limit, KeepKill{"agent-1", ref(KillsMax), 0})
	refused(t, s, api.NotFound, KeepKill{"agent-2", ref(0), 0})
	refused(t, s, api.Invalid, KeepKill{"agent-1", api.TaskRef{Framework: "f1", Task: "../x"}, 0})
	done(t, s, ForgetKills{"agent-1", []api.TaskRef{ref(0), ref(1)}})
	if kept := s.Agents["agent-1"].Kills; len(kept) != KillsMax-3 || kept[0].Task != ref(2) {
		t.Errorf("%d kills are kept, the first of %v", len(kept), kept[0])
	}
	done(t, s, MarkAgent{ID: "agent-1", Saw: Whatever, Set: api.MarkGone})
	if kept := s.Agents["agent-1"].Kills; kept != nil {
		t.Errorf("%d kills wait for an agent that is gone", len(kept))
	}
}
