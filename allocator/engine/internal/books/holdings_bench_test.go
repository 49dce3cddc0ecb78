package books

import (
	"testing"

	"github.com/tenderhq/tender/api"
)

// BenchmarkTasksComeAndGo launches a task from an offer and ends the oldest one, on an agent where a thousand run.
func BenchmarkTasksComeAndGo(b *testing.B) {
	m, a, one := &Member{Number: 7}, &Agent{Details: new(Details)}, api.Scalars(0.01, 1)
	for range 1000 {
		a.Hold(m, one, false, 1)
	}
	b.ReportAllocs()
	for b.Loop() {
		a.Hold(m, one, true, 1)
		a.LetGo(m, one, true)
		a.Hold(m, one, false, 1)
		a.LetGo(m, one, false)
	}
}
