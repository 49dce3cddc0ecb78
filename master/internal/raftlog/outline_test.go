package raftlog

import (
	"runtime"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/registry/registrytest"
)

// TestPollingCopiesNothing: a caller that asks for the outline between two writes does not make the second one copy the
// registry, whatever its size.
func TestPollingCopiesNothing(t *testing.T) {
	m := newMachine(func(err error) { t.Error(err) })
	m.state = registrytest.Large(1000, 1000)
	index := uint64(0)
	write := func() {
		index++
		m.Apply(&raft.Log{Index: index, Term: 1, Data: entryOf(t, []registry.Command{{Change: registry.MarkAgent{ID: "agent-1", Saw: registry.Whatever, Why: "w"}}})})
	}
	write()
	alone := bytesPerRun(write)
	polled := bytesPerRun(func() { _ = m.outline(); write() })
	shown := bytesPerRun(func() { _ = m.show(); write() })
	if polled > 2*alone || shown < 4*polled {
		t.Errorf("a write allocates %d bytes alone, %d when it is polled, %d when all is shown", alone, polled, shown)
	}
}

// bytesPerRun returns how many bytes a run allocates.
func bytesPerRun(run func()) uint64 {
	const runs = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		run()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / runs
}

func entryOf(t *testing.T, commands []registry.Command) []byte {
	t.Helper()
	var messages []*logpb.Command
	for _, command := range commands {
		m, _, err := registrycodec.EncodeCommand(command)
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, m)
	}
	data, err := registrycodec.EncodeEntry(messages, 1)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
