package registry

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/rights"
)

// everyChange returns one of each type that is a change; TestEveryChangeSaysWhatWasSeen compares the list with the source.
func everyChange() []Change {
	return []Change{
		Bootstrap{}, RaiseEpoch{}, RaiseFormat{}, SetMaster{}, RemoveMaster{}, CheckHash{},
		AdmitAgent{}, UpdateAgent{}, MarkAgent{}, RemoveAgent{}, SetMaintenance{}, BeginMaintenance{}, SetReserved{},
		DestroyOrphan{}, VolumeGone{}, KeepKill{}, ForgetKills{}, Subscribe{}, Readmit{}, UpdateFramework{}, RemoveFramework{}, PutEntry{}, DeleteEntry{}, Expire{},
		SetRole{}, Grant{}, TakeGrant{}, RevokePrincipal{}, BeginReceipts{},
		CreateToken{}, UseToken{}, RevokeToken{}, RotateAuthority{}, SetSecret{}, RemoveSecret{}, RecordUsage{},
	}
}

// seenWorld is a registry in which each change that looks has something to look at, and what is there has changed once.
func seenWorld(t *testing.T) *State {
	t.Helper()
	s := counted(t, 1, 1)
	done(t, s, MarkAgent{ID: "agent-1", Saw: 1, Set: api.MarkDraining, Why: "by an operator"})
	done(t, s, SetReserved{ID: "agent-1", Reserved: api.Scalars(1, 1)})
	done(t, s, SetReserved{ID: "agent-1", Saw: api.Scalars(1, 1), Reserved: api.Scalars(1, 1).Plus(api.NewResources(volumeOf("v1")))})
	done(t, s, Subscribe{Framework: api.Framework{ID: "framework-1"}, Instance: "i1"})
	done(t, s, SetRole{Role: "web", Set: Role{Weight: 1, Limit: api.Scalars(1, 1)}})
	done(t, s, Grant{"ann", rights.Grant{Verb: rights.View}})
	done(t, s, SetSecret{"web/key", []byte("x"), "ann"})
	done(t, s, RecordUsage{Until: epoch.Add(time.Hour)})
	done(t, s, RotateAuthority{Digest: strings.Repeat("a", 2*AuthorityDigestBytes), Sealed: []byte("x"), FormerEnds: epoch.Add(time.Hour)})
	return s
}

// TestEveryChangeSaysWhatWasSeen walks all changes (R49). One that is decided by looking is refused as Stale, and changes
// nothing, when it names what was there before; also when it says nothing of what was seen. Each of the others has a
// reason why nobody needs to look.
func TestEveryChangeSaysWhatWasSeen(t *testing.T) {
	older := map[string]Change{ // each with what was there before, and with nothing said
		"MarkAgent":               MarkAgent{ID: "agent-1", Saw: 1, Set: api.MarkDrained},
		"MarkAgent, silent":       MarkAgent{ID: "agent-1", Set: api.MarkGone},
		"RemoveAgent":             RemoveAgent{ID: "agent-1", Nonce: "n1", Saw: 1},
		"RemoveAgent of another":  RemoveAgent{ID: "agent-1", Nonce: "n2", Saw: Whatever},
		"SetMaintenance":          SetMaintenance{Agents: []api.AgentID{"agent-1"}, Window: api.Window{Start: epoch}, Saw: []uint64{1}},
		"SetMaintenance, silent":  SetMaintenance{Agents: []api.AgentID{"agent-1"}, Window: api.Window{Start: epoch}},
		"BeginMaintenance":        BeginMaintenance{ID: "agent-1", Saw: 1},
		"DestroyOrphan":           DestroyOrphan{ID: "agent-1", Volume: volumeOf("v1"), Generation: 1},
		"SetReserved":             SetReserved{ID: "agent-1", Reserved: api.Scalars(2, 2)},
		"RemoveFramework":         RemoveFramework{ID: "framework-1", Session: 1},
		"RemoveFramework, silent": RemoveFramework{ID: "framework-1"},
		"SetRole":                 SetRole{Role: "web", Set: Role{Weight: 2}, SawQuotas: 1},
		"SetRole, other quotas":   SetRole{Role: "eng", Set: Role{Limit: api.Scalars(1, 1)}},
		"RevokePrincipal":         RevokePrincipal{Principal: "ann", Why: "left"},
		"RotateAuthority":         RotateAuthority{Digest: strings.Repeat("b", 2*AuthorityDigestBytes), Sealed: []byte("x"), FormerEnds: epoch.Add(3 * time.Hour)},
		"RemoveSecret":            RemoveSecret{ID: "web/key", Saw: epoch.Add(-time.Hour)},
		"RecordUsage":             RecordUsage{Until: epoch.Add(2 * time.Hour)},
		"UpdateFramework":         UpdateFramework{Framework: api.Framework{ID: "framework-1"}, Session: 1},
		"PutEntry":                PutEntry{Framework: "framework-1", Session: 1, Key: "k"},
		"DeleteEntry":             DeleteEntry{Framework: "framework-1", Session: 1, Key: "k"},
	}
	tried := map[string]bool{}
	for name, change := range older {
		kind := api.Stale
		if _, of := change.saw().(sawSession); of { // of a scheduler, which is told that it was replaced
			kind = api.Fenced
		}
		s := seenWorld(t)
		before := s.print()
		result := s.Apply(Command{At: epoch, Change: change})
		if result.Err == nil || result.Err.Kind != kind || s.print() != before {
			t.Errorf("%s came to %v, changed: %v", name, result.Err, s.print() != before)
		}
		tried[fmt.Sprintf("%T", change)] = true
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	there := 0
	for _, name := range names {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		there += len(regexp.MustCompile(`(?m)^func \(.*\) saw\(\) sight +\{`).FindAll(source, -1))
	}
	if there != len(everyChange()) {
		t.Errorf("%d changes say what was seen, and %d are in the list", there, len(everyChange()))
	}
	for _, change := range everyChange() {
		name := fmt.Sprintf("%T", change)
		switch saw := change.saw().(type) {
		case blind:
			if len(strings.Fields(string(saw))) < 4 {
				t.Errorf("%s is decided without a look, and does not say why: %q", name, string(saw))
			}
		default:
			if !tried[name] {
				t.Errorf("%s is decided by looking; add one that names what was there before", name)
			}
		}
	}
}

// TestWhatWasSeenIsDone: the same changes are done for those who saw what is there.
func TestWhatWasSeenIsDone(t *testing.T) {
	for _, change := range []Change{
		MarkAgent{ID: "agent-1", Saw: 2, Set: api.MarkDrained},
		RemoveAgent{ID: "agent-1", Nonce: "n1", Saw: 2},
		RemoveAgent{ID: "agent-1", Nonce: "n1", Saw: Whatever},
		SetMaintenance{Agents: []api.AgentID{"agent-1"}, Window: api.Window{Start: epoch}, Saw: []uint64{2}},
		RemoveFramework{ID: "framework-1", Session: 2},
		RemoveFramework{ID: "framework-1", Session: Whatever},
		SetRole{Role: "web", Set: Role{Weight: 2}, Saw: Role{Weight: 1, Limit: api.Scalars(1, 1)}, SawQuotas: 1},
		RevokePrincipal{Principal: "ann", Why: "left", SawGrants: []rights.Grant{{Verb: rights.View}}},
		RemoveSecret{ID: "web/key", Saw: epoch},
	} {
		done(t, seenWorld(t), change)
	}
}

// TestDrainedIsOnlyWhatDrains: whatever marks are set and cleared, an agent is drained only while it is draining.
func TestDrainedIsOnlyWhatDrains(t *testing.T) {
	s := counted(t, 1, 0)
	refused(t, s, api.Invalid, MarkAgent{ID: "agent-1", Saw: 1, Set: api.MarkDrained})
	done(t, s, MarkAgent{ID: "agent-1", Saw: 1, Set: api.MarkDraining})
	done(t, s, MarkAgent{ID: "agent-1", Saw: 2, Set: api.MarkDrained})
	done(t, s, MarkAgent{ID: "agent-1", Saw: 3, Clear: api.MarkDraining})
	if got := s.Agents["agent-1"].Marks; got != 0 {
		t.Errorf("an agent in service is %v", got.Strings())
	}
}

// TestWeightsHaveBounds: a weight far from all others is none.
func TestWeightsHaveBounds(t *testing.T) {
	s := New()
	for _, weight := range []float64{1e-300, 1e-7, 1e7, -1} {
		refused(t, s, api.Invalid, SetRole{Role: "web", Set: Role{Weight: weight}, SawQuotas: Whatever})
	}
	done(t, s, SetRole{Role: "web", Set: Role{Weight: 1e-6}, SawQuotas: Whatever})
	done(t, s, SetRole{Role: "eng", Set: Role{Weight: 1e6}, SawQuotas: Whatever})
}
