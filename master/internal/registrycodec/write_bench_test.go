package registrycodec

import (
	"fmt"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/registry/registrytest"
)

// BenchmarkWrite measures a change from the leader to a follower's state, by how many agents the registry has: written
// as an entry of the log, read, and applied.
func BenchmarkWrite(b *testing.B) {
	for _, agents := range []int{10, 10_000} {
		b.Run(fmt.Sprint("agents=", agents), func(b *testing.B) {
			state := registrytest.Large(agents, 10)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				nonce := api.Nonce(fmt.Sprint("another-", i))
				change := registry.AdmitAgent{Agent: api.Agent{Hostname: "another", Resources: api.Scalars(4, 4096)}, Nonce: nonce}
				command, _, err := EncodeCommand(registry.Command{Change: change})
				if err != nil {
					b.Fatal(err)
				}
				entry, err := EncodeEntry([]*logpb.Command{command}, registry.Format)
				if err != nil {
					b.Fatal(err)
				}
				read, err := DecodeEntry(entry)
				if err != nil {
					b.Fatal(err)
				}
				if result := state.Apply(read[0]); result.Agent == "" {
					b.Fatal("refused")
				}
			}
		})
	}
}
