package watching

import (
	"fmt"
	"testing"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
)

// BenchmarkWatchers has a batch of what tasks do read by so many who watch everything, as it goes over the wire.
func BenchmarkWatchers(b *testing.B) {
	const together = 200
	for _, many := range []int{1, 10} {
		b.Run(fmt.Sprintf("watchers=%d", many), func(b *testing.B) {
			log := NewLog(true)
			at := wire.Cursor{Term: api.Term{Number: 1}}
			log.Put(nil, at, true)
			bytes := 0
			var watchers []*reading
			for range many {
				r := &reading{log: log, Watcher: Watcher{By: rights.All(), Request: &apiv1.WatchRequest{}, Send: func(news *apiv1.WatchResponse) error {
					sent, err := wire.Codec().Marshal(&wire.Lent{Message: news, Back: func() {}}) // as a master does
					bytes += sent.Len()
					sent.Free()
					return err
				}}}
				r.class = classOf(&r.Watcher)
				if err := r.begin(b.Context()); err != nil {
					b.Fatal(err)
				}
				watchers = append(watchers, r)
			}
			for b.Loop() {
				entries := make([]Entry, together)
				for i := range entries {
					at.Number++
					entries[i] = Changed(&apiv1.Change{
						Event: &apiv1.Event{Cursor: at.Proto(), Kind: "task", Name: fmt.Sprint("f1/task-", i), What: "running", About: []string{"agent/a1", "framework/f1", "role/web"}},
						View:  &apiv1.Change_Task{Task: &apiv1.TaskView{Id: fmt.Sprint("task-", i), FrameworkId: "f1", AgentId: "a1", Role: "web", State: "RUNNING", Message: fmt.Sprint(at.Number)}},
					}, at)
				}
				log.Put(entries, at, true)
				for _, r := range watchers {
					if _, _, err := r.step(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(bytes)/float64(b.N*many), "bytes/watcher")
			b.ReportMetric(together, "units")
		})
	}
}
