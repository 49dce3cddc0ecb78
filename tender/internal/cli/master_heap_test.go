package cli

import (
	"os"
	"runtime"
	"runtime/metrics"
	"testing"
)

// A master that uses little memory allocates megabytes before it collects garbage.
func TestSmallMasterCollectsSeldom(t *testing.T) {
	if os.Getenv("GOGC") != "" {
		t.Skip("who has set GOGC has chosen when garbage is collected")
	}
	holdMasterHeap()
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	for range 1000 {
		runtime.GC()
		if metrics.Read(goal); goal[0].Value.Uint64() >= masterHeapBytes*9/10 {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("the next collection begins at %d bytes; it should be %d", goal[0].Value.Uint64(), masterHeapBytes)
}
