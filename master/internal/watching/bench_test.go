package watching

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/change"
)

// BenchmarkEvents takes a leader's events from its loop to its log, and from there to a follower's, where few or as many
// as possible are remembered.
func BenchmarkEvents(b *testing.B) {
	const together = 100
	records := make([]change.Record, together)
	for i := range records {
		records[i] = change.Record{
			At: time.Unix(1, 2), Kind: change.Task, What: change.Launched, Agent: "agent-17", Framework: "framework-3",
			Task: api.TaskID(fmt.Sprint("task-", i)), Role: "web", By: change.Actor{Kind: "framework", Name: "framework-3"},
		}
	}
	for _, known := range []int{together, logEntriesMax} {
		b.Run(fmt.Sprintf("known=%d", known), func(b *testing.B) {
			leader, follower, batch := NewLog(false), NewLog(false), new(Batch)
			stream := &Stream{Term: api.Term{Number: 1}, Leader: "m1"}
			place := uint64(0)
			r := &reading{log: leader, Watcher: Watcher{
				By: rights.All(), Request: &apiv1.WatchRequest{EventsOnly: true, Packed: true, After: wire.Cursor{Term: stream.Term}.Proto()},
				Send: func(news *apiv1.WatchResponse) error {
					var entries []Entry
					for encoded := range wire.Unpack(news.GetPacked()) {
						e, err := Told(encoded)
						if err != nil {
							return err
						}
						entries = append(entries, e)
					}
					follower.Put(entries, wire.CursorOf(news.GetCursor()), news.GetComplete())
					return nil
				},
			}}
			leader.Forget(wire.Cursor{Term: stream.Term}, "")
			tell := func() {
				stream.Append(records)
				next, known := batch.Read(stream, place, together, false)
				if place = next; !known {
					b.Fatal("forgotten")
				}
				batch.Tell(leader, true)
				batch.Clear()
				if _, _, err := r.step(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			for range known / together {
				tell()
			}
			for b.Loop() {
				tell()
			}
			b.ReportMetric(together, "units")
		})
	}
}

// BenchmarkLists looks once for what is no more of the kinds whose lists are read whole, by how many other things there
// are.
func BenchmarkLists(b *testing.B) {
	for _, tasks := range []int{100, 100_000} {
		b.Run(fmt.Sprint("tasks=", tasks), func(b *testing.B) {
			log, at := NewLog(true), wire.Cursor{Term: api.Term{Number: 1}}
			entries := []Entry{Changed(&apiv1.Change{View: &apiv1.Change_Role{Role: &apiv1.RoleView{Role: "web"}}}, at)}
			for i := range tasks {
				entries = append(entries, Changed(&apiv1.Change{View: &apiv1.Change_Task{Task: &apiv1.TaskView{Id: fmt.Sprint(i), FrameworkId: "f1"}}}, at))
			}
			log.Put(entries, at, true)
			batch := new(Batch)
			for b.Loop() {
				batch.Clear()
				if batch.AttachLists([]change.Kind{change.Role}, nil, log); len(batch.Entries) != 1 {
					b.Fatal(batch.Entries)
				}
			}
		})
	}
}
