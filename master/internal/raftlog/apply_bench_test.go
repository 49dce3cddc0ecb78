package raftlog

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/registry/registrytest"
)

// BenchmarkApply measures what a committed entry costs the machine of a master that leads, by how many agents the
// registry has: the entry is written, read, applied and told. The hash of all that the registry has is left out, as it
// is computed beside that, once in very many entries.
func BenchmarkApply(b *testing.B) {
	for _, agents := range []int{10, 10_000} {
		b.Run(fmt.Sprint("agents=", agents), func(b *testing.B) {
			m := newMachine(func(err error) { b.Fatal(err) })
			m.state, m.marks.every = registrytest.Large(agents, 10), 1<<60
			_, led := m.subscribe(func(why string) { b.Fatal(why) })
			write := func(nonce api.Nonce) {
				change := registry.AdmitAgent{Agent: api.Agent{Hostname: "another", Resources: api.Scalars(4, 4096)}, Nonce: nonce}
				command, _, err := registrycodec.EncodeCommand(registry.Command{Change: change})
				if err != nil {
					b.Fatal(err)
				}
				entry, err := registrycodec.EncodeEntry([]*logpb.Command{command}, registry.Format)
				if err != nil {
					b.Fatal(err)
				}
				m.Apply(&raft.Log{Index: m.state.Index + 1, Term: 1, Data: entry})
				if told := <-led.commits; told.Results[0].Agent == "" {
					b.Fatal("refused")
				}
			}
			write("first") // what the leadership was given is copied now
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				write(api.Nonce(fmt.Sprint("another-", i)))
			}
		})
	}
}
