package allocator_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/fairshare"
	"github.com/tenderhq/tender/api"
)

func fresh() allocator.Allocator {
	policy, err := fairshare.New(allocator.Config{})
	if err != nil {
		panic(err)
	}
	return policy
}

func BenchmarkFullCycle(b *testing.B) {
	for _, size := range [][2]int{{1000, 1000}, {10000, 1000}, {20000, 2000}, {50000, 100}, {50000, 6000}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			w := NewWorld(fresh(), size[0], size[1])
			w.Cycle()
			b.ReportAllocs()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var cycles time.Duration
			for b.Loop() {
				w.GiveBack(0)
				cycles += w.Cycle()
			}
			b.ReportMetric(float64(cycles.Microseconds())/1000/float64(b.N), "ms/cycle")
			b.ReportMetric(float64(len(w.Offers)), "offers")
		})
	}
}

func BenchmarkOneReturns(b *testing.B) {
	for _, size := range [][2]int{{10, 10}, {10_000, 10}, {10_000, 1000}, {50_000, 6000}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) { benchOneReturns(b, size[0], size[1]) })
	}
}

func benchOneReturns(b *testing.B, agents, frameworks int) {
	w := NewWorld(fresh(), agents, frameworks)
	w.Suppress(100)
	w.Cycle()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		offer := w.Offers[i%len(w.Offers)]
		w.Offers[i%len(w.Offers)] = w.Offers[len(w.Offers)-1]
		w.Offers = w.Offers[:len(w.Offers)-1]
		w.Policy.Return(offer)
		w.Cycle()
		i++
	}
}

func BenchmarkQuotas(b *testing.B) {
	for b.Loop() {
		if _, _, met := Quotas(fresh(), 1250, 250); !met {
			b.Fatal("a guarantee is not met")
		}
	}
}

// All frameworks tell their demand, so agents are divided task by task.
func BenchmarkDemandCycle(b *testing.B) {
	w := NewWorld(fresh(), 10000, 1000)
	for i := range 1000 {
		w.Policy.SetDemand(w.Framework(i), Role, []api.Shape{{Resources: api.Scalars(0.5, 64), Count: 1_000_000}})
	}
	w.Cycle()
	b.ReportAllocs()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var cycles time.Duration
	for b.Loop() {
		w.GiveBack(0)
		cycles += w.Cycle()
	}
	b.ReportMetric(float64(cycles.Microseconds())/1000/float64(b.N), "ms/cycle")
	b.ReportMetric(float64(len(w.Offers)), "offers")
}
