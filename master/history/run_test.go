package history

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestRun: an event is on the disk within 200 ms, and routine is synced within a second more; then nothing is done until
// something happens. What comes right before the end is written too.
func TestRun(t *testing.T) {
	config := Config{Folder: t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		var syncs atomic.Int32
		disk := realDisk()
		disk.sync = func(*os.File) error { syncs.Add(1); return nil }
		h := start(t, config, disk)
		ended := make(chan error)
		go func() { ended <- h.Run(ctx) }()
		told := lives(3, 1, "f1", 3)
		h.Add(packed(told...))
		<-time.After(200 * time.Millisecond)
		got, _ := pages(t, h, Query{})
		isNewestFirst(t, got, told)
		<-time.After(time.Second)
		synctest.Wait()
		if done := syncs.Load(); done != 4 { // the names and the records of both rings
			t.Errorf("%d syncs", done)
		}
		<-time.After(time.Hour)
		if done := syncs.Load(); done != 4 {
			t.Errorf("%d syncs after an hour in which nothing happened", done)
		}
		last := event(3, 100, "agent", "a1", "gone")
		h.Add(packed(last))
		end()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		got, _ = pages(t, start(t, config, realDisk()), Query{})
		isNewestFirst(t, got, append(told, last))
	})
}
