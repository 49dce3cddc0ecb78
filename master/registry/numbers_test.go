package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
)

// counted is a registry with so many agents and frameworks, of instances and nonces n1, n2, ...
func counted(t *testing.T, agents, frameworks int) *State {
	t.Helper()
	s := New()
	done(t, s, Bootstrap{Cluster: "c1"})
	for i := range agents {
		done(t, s, AdmitAgent{Nonce: api.Nonce(fmt.Sprint("n", i+1))})
	}
	for i := range frameworks {
		done(t, s, Subscribe{Framework: api.Framework{Name: "f"}, Instance: api.Nonce(fmt.Sprint("i", i+1))})
	}
	return s
}

func done(t *testing.T, s *State, change Change) Result {
	t.Helper()
	result := s.Apply(Command{At: epoch, Change: change})
	if result.Err != nil {
		t.Fatalf("%T: %v", change, result.Err)
	}
	return result
}

func refused(t *testing.T, s *State, kind api.Kind, change Change) {
	t.Helper()
	before := s.print()
	if result := s.Apply(Command{At: epoch, Change: change}); result.Err == nil || result.Err.Kind != kind || s.print() != before {
		t.Fatalf("%T came to %v, changed: %v", change, result.Err, s.print() != before)
	}
}

// TestNothingIsCountedTwice: R37. Numbers that were given out after a snapshot are not given out again by a registry
// that was restored from it, nor by the next one that is.
func TestNothingIsCountedTwice(t *testing.T) {
	lost := counted(t, 2, 2)
	snapshot := lost.Clone()
	for i := range 5 { // agent-3 to agent-7
		done(t, lost, AdmitAgent{Nonce: api.Nonce(fmt.Sprint("late", i))})
		done(t, lost, Subscribe{Framework: api.Framework{Name: "late"}, Instance: api.Nonce(fmt.Sprint("late", i))})
	}
	was := done(t, lost, Subscribe{Framework: api.Framework{ID: "framework-2"}, Instance: "i2"}).Session
	version := done(t, lost, PutEntry{Framework: "framework-2", Session: was, Key: "k"}).Version
	agents, frameworks := map[api.AgentID]bool{}, map[api.FrameworkID]bool{}
	for id := range lost.Agents {
		agents[id] = true
	}
	for id := range lost.Frameworks {
		frameworks[id] = true
	}
	for restore := range 2 {
		s := snapshot.Clone()
		s.BeginAnew(epoch.Add(time.Duration(restore) * time.Minute))
		done(t, s, RaiseEpoch{Epoch: s.Epoch + 1})
		agent := done(t, s, AdmitAgent{Nonce: "new"}).Agent
		framework := done(t, s, Subscribe{Framework: api.Framework{Name: "new"}, Instance: "new"}).Framework
		if agents[agent] || frameworks[framework] {
			t.Errorf("%s and %s were given out before", agent, framework)
		}
		agents[agent], frameworks[framework] = true, true
		session := done(t, s, Subscribe{Framework: api.Framework{ID: "framework-2"}, Instance: "i2"}).Session
		if turn := s.Frameworks["framework-2"].Turn; session <= was || turn <= was {
			t.Errorf("session %d of a turn from %d on follows %d", session, turn, was)
		}
		v := done(t, s, PutEntry{Framework: "framework-2", Session: session, Key: "k"}).Version
		if v <= version {
			t.Errorf("version %d of a store follows %d", v, version)
		}
		was, version = session, v
	}
}

// TestTheLostComeBack: R37. Whoever got an ID after the snapshot keeps it, in whatever order they come back. Whoever
// was removed since does not, and a second nonce never gets the ID.
func TestTheLostComeBack(t *testing.T) {
	s := counted(t, 2, 2)
	s.BeginAnew(epoch)
	done(t, s, RaiseEpoch{Epoch: s.Epoch + 1})
	for _, n := range []int{7, 3, 5} {
		id := fmt.Sprint("-", n)
		done(t, s, AdmitAgent{Agent: api.Agent{ID: api.AgentID("agent" + id)}, Nonce: api.Nonce("late" + id)})
		refused(t, s, api.Exists, AdmitAgent{Agent: api.Agent{ID: api.AgentID("agent" + id)}, Nonce: api.Nonce("thief" + id)})
		session := done(t, s, Subscribe{Framework: api.Framework{ID: api.FrameworkID("framework" + id)}, Instance: api.Nonce("late" + id)}).Session
		if session <= anewStep {
			t.Errorf("session %d of framework%s may have been another scheduler's", session, id)
		}
	}
	if !s.LostAgent("agent-4") || s.LostAgent("agent-3") || s.LostAgent("agent-2") {
		t.Errorf("lost are %v", s.LostAgents)
	}
	done(t, s, RemoveAgent{ID: "agent-3", Nonce: "late-3", Saw: 1})
	refused(t, s, api.Removed, AdmitAgent{Agent: api.Agent{ID: "agent-3"}, Nonce: "late-3"})
	done(t, s, RemoveAgent{ID: "agent-1", Nonce: "n1", Saw: 1})
	refused(t, s, api.Removed, AdmitAgent{Agent: api.Agent{ID: "agent-1"}, Nonce: "n1"})
	done(t, s, AdmitAgent{Agent: api.Agent{ID: "agent-6"}, Nonce: "late-6"})
}

// TestFirstOfAFormerRestore: when changes were lost that nobody knows of, an agent with a number that no master knows
// does not lock out one that comes later with a lower number.
func TestFirstOfAFormerRestore(t *testing.T) {
	s := counted(t, 2, 0)
	done(t, s, AdmitAgent{Agent: api.Agent{ID: "agent-9"}, Nonce: "late-9"})
	done(t, s, AdmitAgent{Agent: api.Agent{ID: "agent-7"}, Nonce: "late-7"})
	if id := done(t, s, AdmitAgent{Nonce: "new"}).Agent; id != "agent-10" {
		t.Errorf("%s was minted", id)
	}
}
