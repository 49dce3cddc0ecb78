package registrycodec

import (
	"bytes"
	"io"
	"testing"

	"github.com/tenderhq/tender/master/registry/registrytest"
)

// BenchmarkLarge: what 50,000 agents and 1,000 frameworks cost a master that snapshots
// or starts.
func BenchmarkLarge(b *testing.B) {
	state := registrytest.Large(50_000, 1_000)
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
			Hash(state)
		}
	})
	b.ReportMetric(float64(out.Len()), "bytes")
}
