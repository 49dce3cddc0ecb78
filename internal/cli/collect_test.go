package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// A master with little in use makes megabytes anew before garbage is looked for.
func TestSmallMasterCollectsSeldom(t *testing.T) {
	if os.Getenv("GOGC") != "" {
		t.Skip("who has set GOGC has chosen when garbage is looked for")
	}
	before := debug.SetGCPercent(collectPercent)
	t.Cleanup(func() { debug.SetGCPercent(before) })

	kept := collectSeldom()
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/goal:bytes"}}
	metrics.Read(sample)
	live, goal := sample[0].Value.Uint64(), sample[1].Value.Uint64()

	if least := uint64(untouchedBytes) * collectPercent / 100; goal-live < least {
		t.Errorf("garbage is looked for when %d bytes came anew; it should be %d at least", goal-live, least)
	}
	runtime.KeepAlive(kept)
}
