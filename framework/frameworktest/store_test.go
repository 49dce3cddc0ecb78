package frameworktest_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// storeOp is what a scheduler asks of its store. version: the condition of a write.
type storeOp struct {
	kind    string // get, put or delete
	key     string
	value   string
	version uint64
}

// storeGot is what it was answered: the entry, that it was stale, or nothing in time.
type storeGot struct {
	version uint64
	value   string
	stale   bool
	unknown bool // it may have happened, then or later
}

// storeState is one key. A write whose answer is not known leaves a version that nobody knows.
type storeState struct {
	version uint64 // 0: there is no such key
	value   string
	loose   bool
}

var storeModel = porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := make(map[string][]porcupine.Operation)
		for _, op := range history {
			key := op.Input.(storeOp).key
			byKey[key] = append(byKey[key], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() []any { return []any{storeState{}} },
	Step: func(state, input, output any) []any {
		return input.(storeOp).step(state.(storeState), output.(storeGot))
	},
}

// step lists the states in which the operation may have left the key; none: it can't have been so.
func (op storeOp) step(now storeState, got storeGot) []any {
	met := op.version == framework.AnyVersion || op.version == now.version || now.loose && op.version != 0
	failed := op.version != framework.AnyVersion && (op.version != now.version || now.loose)
	after := storeState{value: op.value, version: got.version, loose: got.unknown}
	if op.kind == "delete" {
		after = storeState{}
	}
	switch {
	case op.kind == "get" && got.unknown:
		return []any{now}
	case op.kind == "get":
		if got.value != now.value || (got.version == 0) != (now.version == 0 && !now.loose) || !now.loose && got.version != now.version {
			return nil
		}
		return []any{storeState{version: got.version, value: got.value}}
	case got.unknown && met:
		return []any{now, after}
	case got.unknown:
		return []any{now}
	case got.stale && failed:
		return []any{now}
	case got.stale || !met, op.kind == "put" && got.version <= now.version:
		return nil
	}
	return []any{after}
}

// TestStoreIsLinearizable: whatever becomes of masters and network, there is an order of the operations in
// which each has the answer that it got. That none is found in time counts as failure.
func TestStoreIsLinearizable(t *testing.T) {
	seeds := uint64(3)
	switch {
	case os.Getenv("TENDER_TEST_LONG") != "":
		seeds = 100
	case testing.Short():
		seeds = 1
	}
	first := uint64(1)
	if *seedFlag != 0 {
		first, seeds = *seedFlag, *seedFlag
	}
	for seed := first; seed <= seeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			history := storeHistory(t, seed)
			if verdict := porcupine.CheckOperationsTimeout(storeModel.ToModel(), history, time.Minute); verdict != porcupine.Ok {
				t.Errorf("the history is %s (Ok = linearizable); replay with -seed %d", verdict, seed)
			}
		})
	}
}

// TestStoreModel: the model refuses what no store may answer, and takes what nobody can know.
func TestStoreModel(t *testing.T) {
	at := func(called, returned int64, op storeOp, got storeGot) porcupine.Operation {
		return porcupine.Operation{ClientId: int(called), Input: op, Output: got, Call: called, Return: returned}
	}
	put := storeOp{kind: "put", key: "k", value: "v", version: framework.AnyVersion}
	onlyNew := storeOp{kind: "put", key: "k", value: "w"}
	get := storeOp{kind: "get", key: "k"}
	tests := []struct {
		name    string
		history []porcupine.Operation
		want    bool
	}{
		{"read your write", []porcupine.Operation{at(1, 2, put, storeGot{version: 7}), at(3, 4, get, storeGot{version: 7, value: "v"})}, true},
		{"a stale read", []porcupine.Operation{at(1, 2, put, storeGot{version: 7}), at(3, 4, get, storeGot{})}, false},
		{"at the same time", []porcupine.Operation{at(1, 4, put, storeGot{version: 7}), at(2, 3, get, storeGot{})}, true},
		{"a lost condition", []porcupine.Operation{at(1, 2, put, storeGot{version: 7}), at(3, 4, onlyNew, storeGot{version: 8})}, false},
		{"an unknown write that happened", []porcupine.Operation{at(1, math.MaxInt64, put, storeGot{unknown: true}), at(3, 4, get, storeGot{version: 9, value: "v"})}, true},
		{"an unknown write that did not", []porcupine.Operation{at(1, math.MaxInt64, put, storeGot{unknown: true}), at(3, 4, get, storeGot{})}, true},
		{"a value from nowhere", []porcupine.Operation{at(3, 4, get, storeGot{version: 9, value: "v"})}, false},
	}
	for _, test := range tests {
		if got := porcupine.CheckOperations(storeModel.ToModel(), test.history); got != test.want {
			t.Errorf("%s: linearizable is %v", test.name, got)
		}
	}
}

// storeHistory is what the goroutines of one scheduler asked and heard during a chaos of masters and links.
func storeHistory(t *testing.T, seed uint64) []porcupine.Operation {
	var mu sync.Mutex
	var history []porcupine.Operation
	unknown := 0
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 1, Latency: 5 * time.Millisecond, Seed: seed}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "store"}, &crew{})
		store := f.Client().Store()
		var order atomic.Int64 // of calls and answers: stricter than the clock, which stands still
		var work sync.WaitGroup
		ctx, stop := context.WithCancel(context.Background())
		for id := range 4 {
			work.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(id)))
				seen := make(map[string]uint64) // versions
				for n := 0; ctx.Err() == nil; n++ {
					op := drawOp(random, seen, fmt.Sprintf("%d-%d", id, n))
					called := order.Add(1)
					got := op.do(store)
					returned := order.Add(1)
					mu.Lock()
					if got.unknown {
						unknown++
						returned = math.MaxInt64 // it may come to pass at any time
					}
					if !got.stale && !got.unknown {
						seen[op.key] = got.version
					}
					history = append(history, porcupine.Operation{ClientId: len(history), Input: op, Output: got, Call: called, Return: returned})
					mu.Unlock()
					<-time.After(time.Duration(random.IntN(1000)) * time.Millisecond)
				}
			})
		}
		c.Chaos(frameworktest.Chaos{Plan: frameworktest.NewPlan(seed, time.Minute, frameworktest.KillAgent, frameworktest.IsolateAgent,
			frameworktest.DeafenAgent, frameworktest.MuteAgent, frameworktest.RebootAgent, frameworktest.KillExecutor, frameworktest.KillFramework)})
		c.Advance(10 * time.Second)
		stop()
		work.Wait()
	})
	t.Logf("%d operations, the answer to %d is not known", len(history), unknown)
	if len(history)-unknown < 50 {
		t.Errorf("only %d of %d operations were answered", len(history)-unknown, len(history))
	}
	return history
}

func drawOp(random *rand.Rand, seen map[string]uint64, value string) storeOp {
	op := storeOp{kind: "get", key: fmt.Sprintf("key-%d", random.IntN(3))}
	switch n := random.IntN(10); {
	case n < 5:
		op.kind, op.value, op.version = "put", value, framework.AnyVersion
	case n < 6:
		op.kind, op.version = "delete", framework.AnyVersion
	}
	if op.kind != "get" && random.IntN(2) == 0 {
		op.version = seen[op.key]
	}
	return op
}

// do asks, for a moment.
func (op storeOp) do(store *framework.Store) storeGot {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var entry framework.Entry
	var err error
	switch op.kind {
	case "get":
		entry, err = store.Get(ctx, op.key)
	case "put":
		entry, err = store.Put(ctx, op.key, []byte(op.value), op.version)
	default:
		err = store.Delete(ctx, op.key, op.version)
	}
	switch {
	case api.Is(err, api.Stale):
		return storeGot{stale: true}
	case err != nil:
		return storeGot{unknown: true}
	case op.kind == "get":
		return storeGot{version: entry.Version, value: string(entry.Value)}
	}
	return storeGot{version: entry.Version}
}
