package raftlog

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

// BenchmarkLarge: what 50,000 agents and 1,000 frameworks cost a master that snapshots
// or starts.
func BenchmarkLarge(b *testing.B) {
	state := largeState(50_000, 1_000)
	var out bytes.Buffer
	if err := WriteSnapshot(&out, state, 1); err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			if err := WriteSnapshot(io.Discard, state, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := ReadSnapshot(bytes.NewReader(out.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("hash", func(b *testing.B) {
		for b.Loop() {
			state.Hash()
		}
	})
	b.ReportMetric(float64(out.Len()), "bytes")
}

func largeState(agents, frameworks int) *registry.State {
	state := registry.New()
	resources, err := api.ParseResources("cpus:64;mem:262144;disk:1000000;ports:[31000-32000]")
	if err != nil {
		panic(err)
	}
	for i := range agents {
		state.Apply(registry.Command{Change: registry.AdmitAgent{
			Agent: api.Agent{Hostname: fmt.Sprint("node-", i), Resources: resources, Attributes: map[string]string{"rack": fmt.Sprint(i / 40)}},
			Nonce: api.Nonce(fmt.Sprint("nonce-", i)),
		}})
	}
	for i := range frameworks {
		state.Apply(registry.Command{Change: registry.Subscribe{
			Framework: api.Framework{Name: fmt.Sprint("f", i), Roles: []api.Role{api.Role(fmt.Sprint("team/", i))}},
			Instance:  api.Nonce(fmt.Sprint("instance-", i)),
		}})
	}
	return state
}
