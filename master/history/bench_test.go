package history

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// BenchmarkOneNameAmongAMillion looks for all events of one agent among a million notable ones, of which it has twenty.
func BenchmarkOneNameAmongAMillion(b *testing.B) {
	h, err := Open(Config{Folder: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	const all, batch = 1_000_000, 50_000
	for n := 0; n < all; n += batch {
		var events []*apiv1.Event
		for i := n; i < n+batch; i++ {
			events = append(events, &apiv1.Event{
				Cursor: cursorAt(3, uint64(i+1)).Proto(), At: timestamppb.New(began.Add(time.Duration(i) * time.Second)),
				Kind: "task", Name: fmt.Sprintf("framework-%d/web.%d", i%1000, i), What: "failed", Why: "its program ended with exit code 7 after 12 s",
				By: fmt.Sprintf("agent agent-%d", i%50_000), About: []string{fmt.Sprintf("agent/agent-%d", i%50_000), fmt.Sprintf("framework/framework-%d", i%1000), "role/web"},
				Notable: true,
			})
		}
		h.Add(packed(events...))
		h.write(began)
	}
	for b.Loop() {
		page, err := h.Select(Query{Of: "agent/agent-4711", Limit: 1000})
		if err != nil || len(page.Events) < 10 {
			b.Fatalf("%d events, %v", len(page.Events), err)
		}
	}
	b.ReportMetric(float64(h.notable.bytes)/(1<<20), "MiB")
}

// BenchmarkWrite writes events of tasks' lives, of one framework or of many.
func BenchmarkWrite(b *testing.B) {
	for _, frameworks := range []int{1, 1000} {
		b.Run(fmt.Sprintf("frameworks=%d", frameworks), func(b *testing.B) {
			h := start(b, Config{Folder: b.TempDir(), Bytes: 64 << 20}, unsynced())
			var events []*apiv1.Event
			for len(events) < 3000 {
				framework := fmt.Sprintf("f%d", len(events)/3%frameworks)
				events = append(events, lives(3, uint64(len(events)+1), framework, 1)...)
			}
			term := uint64(3)
			for b.Loop() {
				term++
				for _, e := range events {
					e.Cursor.Term.Number = term
				}
				h.Add(packed(events...))
				h.write(began)
			}
			b.ReportMetric(float64(len(events)), "units")
		})
	}
}
