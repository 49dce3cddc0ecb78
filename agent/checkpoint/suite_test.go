package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// kinds open a store; each further call opens what the one before has left, as a new process does.
var kinds = map[string]func(t testing.TB) func() Store{
	"memory": func(testing.TB) func() Store {
		store := NewMemory()
		return func() Store { return store }
	},
	"disk without blocks ahead": func(t testing.TB) func() Store {
		folder := folder(t)
		return func() Store {
			store := NewDisk(Config{Folder: folder, BootID: "boot-1", ReserveBytes: 4096, BloatBytes: 64 << 10})
			store.system.allocate = func(*os.File, int64) error { return errors.ErrUnsupported }
			return store
		}
	},
	"disk": func(t testing.TB) func() Store {
		folder := folder(t)
		return func() Store {
			return NewDisk(Config{Folder: folder, BootID: "boot-1", ReserveBytes: 4096, BloatBytes: 64 << 10})
		}
	},
}

func folder(t testing.TB) string {
	name, err := os.MkdirTemp("", "checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(name); err != nil {
			t.Error(err)
		}
	})
	return name
}

var opts = cmp.Comparer(func(a, b api.Resources) bool { return a.Equal(b) })

func load(t testing.TB, store Store) []core.Record {
	t.Helper()
	records, err := store.Load()
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func add(t testing.TB, store Store, records ...core.Record) {
	t.Helper()
	if written, err := store.Append(records); err != nil || written != len(records) {
		t.Fatal(written, err)
	}
}

var identityRecord = core.Identity{
	Nonce: "n", Cluster: "c", Agent: "agent-1", Term: api.Term{Epoch: 1, Number: 7}, BootID: "boot-1", Rebooted: true,
	Draining: true, DrainGrace: time.Minute, Gone: true,
}

// everyRecord returns a record of each kind with each field set.
func everyRecord() []core.Record {
	at := time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)
	exit, healthy := 3, true
	ref := api.TaskRef{Framework: "f1", Task: "t1"}
	run := core.Run{Executor: api.ExecutorRef{Framework: "f1", Executor: "x1"}, Number: 9}
	command := api.Command{Argv: []string{"a", "b"}, Env: map[string]string{"A": "1"}, URIs: []api.URI{{Source: "/x", Name: "y", SHA256: "z", Executable: true, Extract: true}}}
	executor := api.Executor{ID: "x1", Command: command, Resources: api.Scalars(1, 2), Data: []byte("d"), ShutdownGrace: time.Second, Labels: map[string]string{"l": "v"}}
	status := api.Status{
		Framework: "f1", Task: "t1", Agent: "agent-1", Executor: "x1", Number: 2, State: api.TaskFailed, Reason: api.ReasonMemoryLimit,
		Message: "m", Source: api.MoverAgent, At: at, Data: []byte("d"), ExitCode: &exit, Healthy: &healthy,
	}
	task := api.Task{
		ID: "t1", Name: "n", Resources: api.Scalars(1, 2), Executor: &executor, Command: &command, Data: []byte("d"),
		KillGrace: time.Minute, Labels: map[string]string{"l": "v"}, Ports: map[string]uint16{"http": 80},
	}
	return []core.Record{
		core.FrameworkKept{Framework: api.Framework{
			ID: "f1", Name: "n", Principal: "p", Roles: []api.Role{"r"}, FailoverTimeout: time.Hour, Standby: true, Constraint: "c",
			MinOffer: api.Scalars(1, 1), MaxOffer: api.Scalars(2, 2), Revocable: true, Labels: map[string]string{"a": "b"}, Endpoints: map[string]string{"e": "f"},
		}},
		core.FrameworkRemoved{Framework: "f1"},
		core.FrameworkForgotten{Framework: "f1"},
		core.ExecutorStarting{Run: run, Executor: executor, Role: "r", Resources: api.Scalars(1, 2), Builtin: true},
		core.ExecutorStarted{Run: run, Process: core.Process{PID: 5, Start: 6}, TokenHash: "h"},
		core.ExecutorStopping{Run: run, Kill: true, Reason: api.ReasonLaunchFailed, Why: "w"},
		core.ExecutorForgotten{Run: run},
		core.TaskLaunched{
			Task: task, Framework: "f1", Role: "r", Resources: api.Scalars(1, 2), ExecutorResources: api.Scalars(3, 4),
			Term: api.Term{Epoch: 1, Number: 2}, Number: 3, At: at,
		},
		core.TaskLaunched{
			Task:      api.Task{ID: "t2", Resources: api.Scalars(1, 2), Command: &command, MaxCompletionTime: time.Hour},
			Framework: "f1", Role: "r", Resources: api.Scalars(1, 2), Number: 4, At: at, Began: at.Add(time.Second),
		},
		core.TaskLaunched{
			Task: api.Task{ID: "t3", Resources: api.Scalars(1, 2), Command: &command}, Framework: "f1", Role: "r", Resources: api.Scalars(1, 2),
			Number: 5, At: at, Receipt: "sixteen bytes \x00\xff",
		},
		core.TaskLaunched{
			Task: api.Task{ID: "t4", Resources: api.Scalars(1, 2), Command: &command}, Framework: "f1", Role: "r", Resources: api.Scalars(1, 2),
			Number: 6, At: at, Group: "group-2e1-5", GroupFirst: "t3",
		},
		core.TaskLaunched{
			Task: api.Task{ID: "t5", Resources: api.Scalars(1, 2), Command: &command}, Framework: "f1", Role: "r", Resources: api.Scalars(1, 2),
			Number: 7, At: at, ExecutorReceipt: "sixteen bytes \x00\xfe",
		},
		core.ExecutorStarting{
			Run: core.Run{Executor: run.Executor, Number: run.Number + 1}, Executor: executor, Role: "r", Resources: api.Scalars(1, 2),
			LaunchTerm: api.Term{Epoch: 1, Number: 2}, LaunchNumber: 7, Receipt: "sixteen bytes \x00\xfe",
		},
		core.TaskKilled{Task: ref, Grace: time.Second, Reason: api.ReasonTaskGroupFailed, Why: "another one has failed"},
		core.TaskKilled{Task: ref, Grace: time.Second, Reason: api.ReasonPreempted},
		core.TaskGroup{Task: ref, Group: core.Process{PID: 7, Start: 8}},
		core.TaskStatus{Status: status, ExecutorNumber: 4, Group: core.Process{PID: 7, Start: 8}},
		core.TaskStatus{Status: status, ExecutorNumber: 5, Progress: true},
		core.TaskAcknowledged{Task: ref, Number: 2},
		core.StubKept{Stub: protocol.TaskStub{TaskRef: ref, Name: "n", Role: "r", Status: status, LaunchedAt: at}},
		core.StubForgotten{Task: ref},
	}
}

func TestStores(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Run("GivesBackEveryKind", func(t *testing.T) { givesBackEveryKind(t, kind(t)) })
			t.Run("KeepsOneIdentity", func(t *testing.T) { keepsOneIdentity(t, kind(t)) })
			t.Run("CompactsWhenItPays", func(t *testing.T) { compactsWhenItPays(t, kind(t)) })
			t.Run("ResetForgets", func(t *testing.T) { resetForgets(t, kind(t)) })
			t.Run("FullDisk", func(t *testing.T) { fullDisk(t, kind(t)) })
			t.Run("AnyHistory", func(t *testing.T) { anyHistory(t, kind) })
		})
	}
}

func givesBackEveryKind(t *testing.T, open func() Store) {
	store := open()
	if records := load(t, store); len(records) != 0 {
		t.Fatalf("an empty store has %v", records)
	}
	want := append([]core.Record{identityRecord}, everyRecord()...)
	add(t, store, want...)
	store.Close()
	if diff := cmp.Diff(want, load(t, open()), opts); diff != "" {
		t.Error(diff)
	}
}

// The identity and volumes are loaded as they were last, before all other records.
func keepsOneIdentity(t *testing.T, open func() Store) {
	store := open()
	load(t, store)
	volume := func(id api.VolumeID) protocol.Volume {
		return protocol.Volume{Generation: 7, Resource: api.Resource{Label: api.Label{Name: "disk", Reserved: "r", Dynamic: true, Volume: id}, Scalar: 1000}}
	}
	later := identityRecord
	later.Term.Number++
	add(t, store, identityRecord)
	add(t, store, core.FrameworkForgotten{Framework: "a"}, core.VolumeKept{Volume: volume("v1")}, core.VolumeKept{Volume: volume("v2")}, later,
		core.FrameworkForgotten{Framework: "b"}, core.VolumeForgotten{Volume: "v1"})
	store.Close()
	want := []core.Record{later, core.VolumeKept{Volume: volume("v2")}, core.FrameworkForgotten{Framework: "a"}, core.FrameworkForgotten{Framework: "b"}}
	if diff := cmp.Diff(want, load(t, open()), opts); diff != "" {
		t.Error(diff)
	}
}

func compactsWhenItPays(t *testing.T, open func() Store) {
	store := open()
	load(t, store)
	add(t, store, identityRecord)
	many := make([]core.Record, memoryRecordsMin+1)
	for i := range many {
		many[i] = core.FrameworkForgotten{Framework: api.FrameworkID(fmt.Sprint("f", i))}
	}
	add(t, store, many...)
	if !store.Bloated() {
		t.Error("nothing but garbage, and not bloated")
	}
	compact := []core.Record{identityRecord, core.FrameworkForgotten{Framework: "kept"}}
	if err := store.Compact(compact); err != nil {
		t.Fatal(err)
	}
	if store.Bloated() {
		t.Error("bloated after a compaction")
	}
	after := core.FrameworkForgotten{Framework: "after"}
	add(t, store, after)
	store.Close()
	if diff := cmp.Diff(append(compact, after), load(t, open()), opts); diff != "" {
		t.Error(diff)
	}
}

func resetForgets(t *testing.T, open func() Store) {
	store := open()
	load(t, store)
	add(t, store, append([]core.Record{identityRecord}, everyRecord()...)...)
	if err := store.Reset(); err != nil {
		t.Fatal(err)
	}
	fresh := core.Identity{Nonce: "n2", BootID: "boot-1"}
	add(t, store, fresh, core.FrameworkForgotten{Framework: "a"})
	store.Close()
	if diff := cmp.Diff([]core.Record{fresh, core.FrameworkForgotten{Framework: "a"}}, load(t, open()), opts); diff != "" {
		t.Error(diff)
	}
}

// When the disk is full, the reserve is used: what is appended is stored, nothing is compacted, and Full reports it
// until there is room again (R14). Of records that do not fit the reserve no part is stored; they fit later.
func fullDisk(t *testing.T, open func() Store) {
	store := open()
	fill := func(bool) {}
	switch s := store.(type) {
	case *Memory:
		fill = func(full bool) { s.Fill(full, 10) }
	case *Disk:
		small := newSmallDisk(1<<20, s.system)
		s.system = small.system()
		fill = small.fill
	}
	load(t, store)
	add(t, store, identityRecord, core.FrameworkForgotten{Framework: "before"})
	fill(true)
	later := identityRecord
	later.Term.Number++
	want := []core.Record{later, core.FrameworkForgotten{Framework: "before"}}
	add(t, store, later)
	for i := range 5 {
		more := core.FrameworkForgotten{Framework: api.FrameworkID(fmt.Sprint("f", i))}
		add(t, store, more)
		want = append(want, more)
	}
	large := core.FrameworkKept{Framework: api.Framework{ID: "large", Name: strings.Repeat("x", 8<<10)}}
	group := make([]core.Record, 20)
	for i := range group {
		group[i] = large
	}
	for range 2 {
		if written, err := store.Append(group); written != 0 || !errors.Is(err, ErrNoRoom) {
			t.Fatalf("%d written, %v", written, err)
		}
	}
	if !store.Full() || store.Bloated() {
		t.Error("the disk is full and the store does not say so")
	}
	fill(false)
	if store.Full() {
		t.Error("there is room again and the store does not say so")
	}
	add(t, store, group...)
	store.Close()
	if diff := cmp.Diff(append(want, group...), load(t, open()), opts); diff != "" {
		t.Error(diff)
	}
}

// Whatever is appended, compacted and reopened: all of it is read back, in order.
func anyHistory(t *testing.T, kind func(testing.TB) func() Store) {
	rapid.Check(t, func(rt *rapid.T) {
		open := kind(t)
		store := open()
		load(t, store)
		want := []core.Record{identityRecord}
		add(t, store, identityRecord)
		kinds := everyRecord()
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				store.Close()
				store = open()
				if diff := cmp.Diff(want, load(t, store), opts); diff != "" {
					rt.Fatal(diff)
				}
			case 1:
				want = append(want[:1:1], want[len(want)/2+1:]...)
				if err := store.Compact(want); err != nil {
					rt.Fatal(err)
				}
			default:
				group := rapid.SliceOfN(rapid.SampledFrom(kinds), 0, 20).Draw(rt, "group")
				add(t, store, group...)
				want = append(want, group...)
			}
		}
		store.Close()
		if diff := cmp.Diff(want, load(t, open()), opts); diff != "" {
			rt.Fatal(diff)
		}
	})
}
