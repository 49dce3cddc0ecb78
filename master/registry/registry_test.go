package registry

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/rights"
)

var epoch = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// commands draws what leaders propose and what only a broken one would: few
// identifiers, so that commands meet.
func commands(t *rapid.T) []Command {
	drawn := rapid.SliceOfN(rapid.Custom(drawChange), 1, 60).Draw(t, "changes")
	made := make([]Command, len(drawn))
	for i, change := range drawn {
		made[i] = Command{
			Client:  rapid.SampledFrom([]string{"", "m1/1", "m2/2", "instance-a"}).Draw(t, "client"),
			Counter: uint64(rapid.IntRange(0, 20).Draw(t, "counter")),
			At:      epoch.Add(time.Duration(i) * time.Second),
			Change:  change,
		}
	}
	return made
}

var (
	agentIDs     = rapid.SampledFrom([]api.AgentID{"", "agent-1", "agent-2", "agent-9", "agent-x", "a/b"})
	frameworkIDs = rapid.SampledFrom([]api.FrameworkID{"", "framework-1", "framework-2", "framework-9", "framework-0", "x"})
	nonces       = rapid.SampledFrom([]api.Nonce{"", "n1", "n2", "n3"})
	keys         = rapid.SampledFrom([]string{"", "a", "b", "\xff"})
	roles        = rapid.SampledFrom([]api.Role{"", "web", "eng/web", "*"})
	sessions     = rapid.Uint64Range(0, 4)
	bundles      = rapid.SampledFrom([]api.Resources{{}, api.Scalars(1, 2), api.Scalars(4, 4096), api.Scalars(-1, 0),
		api.NewResources(volumeOf("v1")), api.NewResources(volumeOf("v1"), volumeOf("v2"))})
)

func drawFramework(t *rapid.T) api.Framework {
	return api.Framework{
		ID:        frameworkIDs.Draw(t, "framework"),
		Name:      rapid.SampledFrom([]string{"", "batch", "web"}).Draw(t, "name"),
		Principal: rapid.SampledFrom([]string{"", "eve"}).Draw(t, "principal"),
		Standby:   rapid.Bool().Draw(t, "standby"),
		Roles:     []api.Role{roles.Draw(t, "role")},
	}
}

func drawVersion(t *rapid.T) *uint64 {
	if rapid.Bool().Draw(t, "any version") {
		return nil
	}
	version := sessions.Draw(t, "version")
	return &version
}

func drawWindow(t *rapid.T) api.Window {
	starts := []time.Time{{}, epoch, epoch.In(time.FixedZone("east", 3600)), epoch.Add(time.Hour)}
	return api.Window{Start: rapid.SampledFrom(starts).Draw(t, "start"), Duration: time.Duration(rapid.IntRange(-1, 2).Draw(t, "hours")) * time.Hour}
}

func drawGrant(t *rapid.T) rights.Grant {
	return rights.Grant{
		Verb: rapid.SampledFrom([]rights.Verb{"", rights.Run, rights.Operate, "kill-task", "fly"}).Draw(t, "verb"), Role: roles.Draw(t, "role"),
	}
}

func drawVolume(t *rapid.T) api.Resource {
	return volumeOf(rapid.SampledFrom([]api.VolumeID{"", "v1", "v2"}).Draw(t, "volume"))
}

func volumeOf(id api.VolumeID) api.Resource {
	return api.Resource{Label: api.Label{Name: "disk", Reserved: "web", Dynamic: true, Volume: id}, Scalar: 1000}
}

func drawChange(t *rapid.T) Change {
	agent := api.Agent{ID: agentIDs.Draw(t, "agent"), Hostname: "h", Resources: bundles.Draw(t, "resources")}
	framework := drawFramework(t)
	switch rapid.IntRange(0, 27).Draw(t, "kind") {
	case 0:
		return Bootstrap{Cluster: rapid.SampledFrom([]api.ClusterID{"", "c1", "c2"}).Draw(t, "cluster")}
	case 1:
		return RaiseEpoch{Epoch: sessions.Draw(t, "epoch")}
	case 2:
		return SetMaster{ID: api.MasterID(keys.Draw(t, "master")), Master: Master{GRPC: "g"}}
	case 3:
		return RemoveMaster{ID: api.MasterID(keys.Draw(t, "master"))}
	case 4, 5:
		return AdmitAgent{Agent: agent, Nonce: nonces.Draw(t, "nonce"), BootID: "b"}
	case 6:
		return UpdateAgent{Agent: agent, BootID: "b2"}
	case 7:
		return MarkAgent{ID: agent.ID, Saw: drawSaw(t), Set: api.Mark(rapid.Uint8().Draw(t, "set")), Clear: api.Mark(rapid.Uint8().Draw(t, "clear")), Why: "why"}
	case 8:
		return RemoveAgent{ID: agent.ID, Nonce: nonces.Draw(t, "removed"), Saw: drawSaw(t)}
	case 9:
		return SetReserved{ID: agent.ID, Saw: bundles.Draw(t, "saw"), Reserved: bundles.Draw(t, "reserved"),
			Framework: framework.ID, Done: []api.OperationID{api.OperationID(keys.Draw(t, "operation"))}}
	case 24:
		return DestroyOrphan{ID: agent.ID, Volume: drawVolume(t), Generation: rapid.Uint64Range(0, 3).Draw(t, "generation")}
	case 25:
		return VolumeGone{ID: agent.ID, Volume: drawVolume(t).Volume, Generation: rapid.Uint64Range(0, 3).Draw(t, "generation")}
	case 26:
		return KeepKill{agent.ID, api.TaskRef{Framework: framework.ID, Task: api.TaskID(keys.Draw(t, "task"))}, time.Duration(rapid.IntRange(-1, 1).Draw(t, "grace"))}
	case 27:
		return ForgetKills{agent.ID, []api.TaskRef{{Framework: framework.ID, Task: api.TaskID(keys.Draw(t, "task"))}}}
	case 10, 11:
		return Subscribe{Framework: framework, Instance: nonces.Draw(t, "instance")}
	case 12:
		return Readmit{Framework: framework}
	case 13:
		return UpdateFramework{Framework: framework, Session: sessions.Draw(t, "session")}
	case 14:
		return RemoveFramework{ID: framework.ID, Session: sessions.Draw(t, "session"), Why: "done"}
	case 15:
		return SetRole{Role: roles.Draw(t, "role"), Set: Role{Weight: rapid.Float64().Draw(t, "weight"), Limit: bundles.Draw(t, "limit")}, SawQuotas: drawSaw(t)}
	case 16:
		return PutEntry{framework.ID, sessions.Draw(t, "session"), keys.Draw(t, "key"), []byte("value"), drawVersion(t), uint64(rapid.IntRange(0, 20).Draw(t, "all")), uint64(rapid.IntRange(0, 100).Draw(t, "keep"))}
	case 17:
		return RaiseFormat{Format: rapid.Uint64Range(0, Format+1).Draw(t, "format")}
	case 18:
		return SetMaintenance{Agents: []api.AgentID{agent.ID}, Window: drawWindow(t), Saw: []uint64{drawSaw(t)}}
	case 19:
		return BeginMaintenance{ID: agent.ID, Saw: drawSaw(t)}
	case 20:
		return Grant{Principal: keys.Draw(t, "principal"), Grant: drawGrant(t)}
	case 21:
		return TakeGrant{Principal: keys.Draw(t, "principal"), Grant: drawGrant(t)}
	case 22:
		return RevokePrincipal{Principal: keys.Draw(t, "principal"), Why: "why"}
	case 23:
		return BeginReceipts{Mark: make([]byte, rapid.SampledFrom([]int{0, ReceiptMarkBytes}).Draw(t, "bytes")), Since: api.Term{Number: 1}}
	default:
		if rapid.Bool().Draw(t, "nothing") {
			return nil
		}
		if rapid.Bool().Draw(t, "expire") {
			return Expire{Before: epoch.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "before")) * time.Second)}
		}
		return DeleteEntry{framework.ID, sessions.Draw(t, "session"), keys.Draw(t, "key"), drawVersion(t)}
	}
}

// drawSaw draws what a proposer saw of an agent's marks, or that it does not matter.
func drawSaw(t *rapid.T) uint64 {
	return rapid.SampledFrom([]uint64{0, 1, 2, 3, Whatever}).Draw(t, "saw")
}

// check holds what must be true of every state.
func check(t *rapid.T, s *State) {
	nonces := map[api.Nonce]api.AgentID{}
	for id, agent := range s.Agents {
		n, err := number(string(id), "agent")
		if err != nil || n >= s.NextAgent || agent.Agent.ID != id {
			t.Fatalf("agent %s (%s) was never given out: next is %d, %v", id, agent.Agent.ID, s.NextAgent, err)
		}
		if agent.Marks.Has(api.MarkDrained) && !agent.Marks.Has(api.MarkDraining) || agent.MarksVersion == 0 {
			t.Fatalf("agent %s is %v, version %d", id, agent.Marks.Strings(), agent.MarksVersion)
		}
		if other, twice := nonces[agent.Nonce]; twice {
			t.Fatalf("nonce %s has two agents, %s and %s (R7)", agent.Nonce, id, other)
		}
		nonces[agent.Nonce] = id
	}
	checkFrameworks(t, s)
	rebuilt := s.Clone()
	if !reflect.DeepEqual(rebuilt.index(), s.index()) {
		t.Fatalf("indexes drifted:\n%+v\n%+v", s.index(), rebuilt.index())
	}
}

func checkFrameworks(t *rapid.T, s *State) {
	standby, instances := map[string]bool{}, map[api.Nonce]bool{}
	for id, framework := range s.Frameworks {
		if n, err := number(string(id), "framework"); err != nil || n >= s.NextFramework || framework.Framework.ID != id {
			t.Fatalf("framework %s was never given out: next is %d, %v", id, s.NextFramework, err)
		}
		if framework.Instance != "" && instances[framework.Instance] {
			t.Fatalf("instance %s has two frameworks", framework.Instance)
		}
		instances[framework.Instance] = true
		if framework.Framework.Standby && framework.Removed.IsZero() {
			if standby[framework.Framework.Name] {
				t.Fatalf("two stand under the name %q (R6)", framework.Framework.Name)
			}
			standby[framework.Framework.Name] = true
		}
		size := int64(0)
		for key, entry := range framework.Store {
			size += int64(len(key) + len(entry.Value))
			if entry.Version > framework.StoreVersion {
				t.Fatalf("key %s has version %d of %d", key, entry.Version, framework.StoreVersion)
			}
		}
		if size != framework.StoreSize {
			t.Fatalf("store of %s holds %d bytes, says %d", id, size, framework.StoreSize)
		}
	}
}

// TestApplyIsTotalAndDeterministic: R17, R18. Any commands give the same state and
// results everywhere, also where a clone or a restart made the indexes anew.
func TestApplyIsTotalAndDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, other := New(), New()
		for i, command := range commands(t) {
			got, want := one.Apply(command), other.Apply(command)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("command %d %+v: %+v on one, %+v on the other", i, command, got, want)
			}
			if rapid.Bool().Draw(t, "clone") {
				other = other.Clone()
			}
			check(t, one)
		}
		if one.print() != other.print() {
			t.Fatalf("hashes differ:\n%+v\n%+v", one, other)
		}
	})
}

// TestRepeatsDoNothing: R17. A command that comes again changes nothing and gets its
// result again.
func TestRepeatsDoNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New()
		for _, command := range commands(t) {
			if command.Client == "" {
				continue
			}
			first := s.Apply(command)
			hash := s.print()
			if late := command; command.Counter > 0 && !s.leavesNothing(command.Change, first) {
				late.Counter--
				if got := s.Apply(late); !isKind(got, api.Stale) || s.print() != hash {
					t.Fatalf("%+v came after a later one of its client and was answered %+v", late, got)
				}
			}
			command.At = command.At.Add(time.Hour)
			if again := s.Apply(command); !reflect.DeepEqual(again, first) {
				t.Fatalf("%+v: first %+v, then %+v", command, first, again)
			}
			if s.print() != hash {
				t.Fatalf("%+v changed the state when it came again", command)
			}
		}
	})
}

// TestClonesStandApart: neither copy sees what is done to the other.
func TestClonesStandApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New()
		type seen struct {
			state *State
			hash  string
		}
		var clones []seen
		for _, command := range commands(t) {
			s.Apply(command)
			clones = append(clones, seen{s.Clone(), s.print()})
			if rapid.Bool().Draw(t, "write the clone") {
				clone := s.Clone()
				clone.Apply(Command{Change: drawChange(t)})
				clones = append(clones, seen{s.Clone(), s.print()})
			}
		}
		for i, clone := range clones {
			if got := clone.state.print(); got != clone.hash {
				t.Fatalf("clone %d of %d was changed from outside", i, len(clones))
			}
		}
	})
}

func TestSubscribe(t *testing.T) {
	s := New()
	counter := uint64(0)
	apply := func(change Change) Result {
		counter++
		return s.Apply(Command{Client: "m1/1", Counter: counter, At: epoch.Add(time.Duration(counter) * time.Second), Change: change})
	}
	want := func(what string, got Result, kind api.Kind, id api.FrameworkID, session uint64) {
		t.Helper()
		switch {
		case id == "" && (got.Err == nil || got.Err.Kind != kind):
			t.Errorf("%s: got %+v, want a refusal of kind %v", what, got, kind)
		case id != "" && (got.Err != nil || got.Framework != id || got.Session != session):
			t.Errorf("%s: got %+v, want %s session %d", what, got, id, session)
		}
	}
	turn := func(what string, session uint64) {
		t.Helper()
		if began := s.Frameworks["framework-1"].Turn; began != session {
			t.Errorf("%s: the turn began with session %d, not %d", what, began, session)
		}
	}
	batch := api.Framework{Name: "batch", Roles: []api.Role{"web"}, Principal: "bob"}
	keeper := api.Framework{Name: "keeper", Standby: true, Principal: "ann"}
	named := func(f api.Framework, id api.FrameworkID) api.Framework { f.ID = id; return f }
	by := func(f api.Framework, principal string) api.Framework { f.Principal = principal; return f }

	want("first contact", apply(Subscribe{batch, "i1"}), 0, "framework-1", 1)
	want("its reply was lost (R7)", apply(Subscribe{batch, "i1"}), 0, "framework-1", 2)
	turn("its reply was lost (R6)", 1)
	want("the same name is no identity", apply(Subscribe{batch, "i2"}), 0, "framework-2", 1)
	want("takeover by ID (R5)", apply(Subscribe{named(batch, "framework-1"), "i3"}), 0, "framework-1", 3)
	turn("takeover by ID (R6)", 3)
	want("of somebody else's", apply(Subscribe{named(by(batch, "eve"), "framework-1"), "i4"}), api.Denied, "", 0)
	want("an instance of two frameworks", apply(Subscribe{named(batch, "framework-2"), "i3"}), api.Exists, "", 0)
	want("standby", apply(Subscribe{keeper, "i5"}), 0, "framework-3", 1)
	want("standby takes over by name (R6)", apply(Subscribe{keeper, "i6"}), 0, "framework-3", 2)
	want("the name is bound to its principal", apply(Subscribe{by(keeper, "eve"), "i7"}), api.Denied, "", 0)
	want("removal by an older session (R5)", apply(RemoveFramework{"framework-3", 1, "away too long"}), api.Stale, "", 0)
	want("removal", apply(RemoveFramework{"framework-3", 2, "away too long"}), 0, "framework-3", 2)
	want("a removed ID", apply(Subscribe{named(keeper, "framework-3"), "i6"}), api.Removed, "", 0)
	want("the name is free again", apply(Subscribe{keeper, "i8"}), 0, "framework-4", 1)
	want("an ID from a lost future", apply(Subscribe{named(batch, "framework-17"), "i9"}), 0, "framework-17", 1)
	want("goes on behind it", apply(Subscribe{batch, "i10"}), 0, "framework-18", 1)
	want("no such ID", apply(Subscribe{named(batch, "mine"), "i11"}), api.Invalid, "", 0)
	want("known to an agent", apply(Readmit{named(batch, "framework-30")}), 0, "framework-30", 1)
	for _, i := range []string{"i12", "i13"} { // one is remembered until its time has come
		apply(Expire{Before: s.Frameworks["framework-3"].Removed})
		want("a tombstone of just then", apply(Subscribe{named(keeper, "framework-3"), api.Nonce(i)}), api.Removed, "", 0)
		if s.Frameworks["framework-3"].Why != "away too long" {
			t.Errorf("why it was removed is forgotten: %+v", s.Frameworks["framework-3"])
		}
	}
	apply(Expire{Before: epoch.Add(time.Hour)})
	want("an expired tombstone", apply(Subscribe{named(keeper, "framework-3"), "i12"}), api.Removed, "", 0)
	want("whose tasks live on (R21)", apply(Readmit{named(batch, "framework-3")}), 0, "framework-3", 1)
}

func TestAgents(t *testing.T) {
	s := New()
	apply := func(change Change) Result { return s.Apply(Command{At: epoch, Change: change}) }
	want := func(what string, got Result, kind api.Kind, id api.AgentID) {
		t.Helper()
		if (id == "" && (got.Err == nil || got.Err.Kind != kind)) || (id != "" && (got.Err != nil || got.Agent != id)) {
			t.Errorf("%s: got %+v, want %v or %q", what, got, kind, id)
		}
	}
	want("first contact", apply(AdmitAgent{Agent: api.Agent{Hostname: "h1"}, Nonce: "n1", BootID: "b1"}), 0, "agent-1")
	want("again (R7)", apply(AdmitAgent{Agent: api.Agent{Hostname: "h1"}, Nonce: "n1", BootID: "b1"}), 0, "agent-1")
	want("another", apply(AdmitAgent{Agent: api.Agent{Hostname: "h2"}, Nonce: "n2", BootID: "b1"}), 0, "agent-2")
	want("a cloned folder", apply(AdmitAgent{Agent: api.Agent{ID: "agent-1"}, Nonce: "n3", BootID: "b1"}), api.Exists, "")
	want("a cloned nonce", apply(AdmitAgent{Agent: api.Agent{ID: "agent-2"}, Nonce: "n1", BootID: "b1"}), api.Exists, "")
	want("reserve", apply(SetReserved{ID: "agent-1", Reserved: api.Scalars(1, 1)}), 0, "agent-1")
	want("by who saw less", apply(SetReserved{ID: "agent-1", Reserved: api.Scalars(2, 1)}), api.Stale, "")
	want("gone", apply(MarkAgent{ID: "agent-1", Saw: Whatever, Set: api.MarkGone, Why: "burnt"}), 0, "agent-1")
	want("comes back", apply(MarkAgent{ID: "agent-1", Saw: Whatever, Clear: api.MarkGone}), api.Removed, "")
	want("registers", apply(AdmitAgent{Agent: api.Agent{}, Nonce: "n1", BootID: "b2"}), api.Removed, "")
	want("removed", apply(RemoveAgent{"agent-1", s.Agents["agent-1"].Nonce, Whatever}), 0, "agent-1")
	want("and comes back", apply(AdmitAgent{Agent: api.Agent{ID: "agent-1"}, Nonce: "n1", BootID: "b2"}), api.Removed, "")
	want("from a lost future", apply(AdmitAgent{Agent: api.Agent{ID: "agent-8"}, Nonce: "n8", BootID: "b2"}), 0, "agent-8")
	want("goes on behind it", apply(AdmitAgent{Agent: api.Agent{}, Nonce: "n9", BootID: "b2"}), 0, "agent-9")
}

func TestStore(t *testing.T) {
	s := New()
	apply := func(change Change) Result { return s.Apply(Command{At: epoch, Change: change}) }
	apply(Subscribe{Instance: "i1"})
	version := func(v uint64) *uint64 { return &v }
	steps := []struct {
		what    string
		change  Change
		kind    api.Kind
		version uint64
	}{
		{"new", PutEntry{"framework-1", 1, "a", []byte("1"), version(0), 0, 0}, 0, 1},
		{"new twice", PutEntry{"framework-1", 1, "a", []byte("1"), version(0), 0, 0}, api.Stale, 1},
		{"replace", PutEntry{"framework-1", 1, "a", []byte("2"), version(1), 0, 0}, 0, 2},
		{"delete the old one", DeleteEntry{"framework-1", 1, "a", version(1)}, api.Stale, 2},
		{"delete", DeleteEntry{"framework-1", 1, "a", version(2)}, 0, 3},
		{"delete nothing", DeleteEntry{"framework-1", 1, "a", nil}, 0, 0},
		{"made again, never an old version", PutEntry{"framework-1", 1, "a", nil, version(0), 0, 0}, 0, 4},
		{"too large", PutEntry{"framework-1", 1, "b", make([]byte, StoreValueBytesMax+1), nil, 0, 0}, api.Invalid, 0},
		{"fenced (R5)", PutEntry{"framework-1", 0, "a", nil, nil, 0, 0}, api.Fenced, 0},
		{"from nowhere", PutEntry{"framework-2", 1, "a", nil, nil, 0, 0}, api.NotFound, 0},
	}
	for _, step := range steps {
		got := apply(step.change)
		if (step.kind == 0) != (got.Err == nil) || got.Err != nil && got.Err.Kind != step.kind || got.Version != step.version {
			t.Errorf("%s: got %+v, want %v version %d", step.what, got, step.kind, step.version)
		}
	}
	value := make([]byte, StoreValueBytesMax)
	for i := range StoreFrameworkBytesMax / StoreValueBytesMax {
		got := apply(PutEntry{"framework-1", 1, fmt.Sprint("big", i), value, nil, 0, 0})
		if last := i == StoreFrameworkBytesMax/StoreValueBytesMax-1; last != (got.Err != nil && got.Err.Kind == api.Limit) {
			t.Fatalf("value %d: %+v", i, got)
		}
	}
	if s.StoreBytes() != s.Frameworks["framework-1"].StoreSize {
		t.Errorf("all stores hold %d bytes", s.StoreBytes())
	}
	apply(RemoveFramework{ID: "framework-1", Session: Whatever})
	if s.StoreBytes() != 0 {
		t.Errorf("a tombstone holds %d bytes", s.StoreBytes())
	}
}

// TestFencedWritesMayComeAgain: a scheduler whose write met a session change asks again with the same number under the
// new session.
func TestFencedWritesMayComeAgain(t *testing.T) {
	s := New()
	s.Apply(Command{Change: Subscribe{Instance: "i1"}})
	s.Apply(Command{Change: Subscribe{Instance: "i1"}})
	put := func(session uint64) Result {
		return s.Apply(Command{Client: "i1", Counter: 1, Change: PutEntry{Framework: "framework-1", Session: session, Key: "a"}})
	}
	if got := put(1); got.Err == nil || got.Err.Kind != api.Fenced {
		t.Fatalf("an older session wrote: %+v", got)
	}
	if got := put(2); got.Err != nil || got.Version != 1 {
		t.Fatalf("the new session did not: %+v", got)
	}
}

func TestTombstonesAreBounded(t *testing.T) {
	s := New()
	s.Frameworks = make(map[api.FrameworkID]Framework, TombstonesMax+1)
	for i := range TombstonesMax {
		id := api.FrameworkID("framework-" + mint(&s.NextFramework))
		s.Frameworks[id] = Framework{Framework: api.Framework{ID: id}, Removed: epoch.Add(time.Duration(i) * time.Second)}
	}
	at := epoch.Add(TombstonesMax * time.Second)
	one := s.Apply(Command{At: at, Change: Subscribe{Instance: "one-more"}})
	if removed := s.Apply(Command{At: at, Change: RemoveFramework{ID: one.Framework, Session: Whatever}}); one.Err != nil || removed.Err != nil {
		t.Fatal(one.Err, removed.Err)
	}
	if n := len(s.Frameworks); n != TombstonesMax+1-(TombstonesMax+1)/10-1 {
		t.Errorf("%d tombstones are left", n)
	}
	if _, kept := s.Frameworks["framework-1"]; kept {
		t.Error("the oldest was kept")
	}
}
