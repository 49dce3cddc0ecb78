package paths

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/tenderhq/tender/internal/testing/processor"
)

// BenchmarkConfine runs a program that does nothing: without rules, and with rules that hide a folder in about the
// place of an agent's data. The rules are made anew for each run, by a thread that restricts itself and ends. The cost
// is in cpu-us/op.
func BenchmarkConfine(b *testing.B) {
	reach := Reach{Hidden: "/var/lib"}
	if _, err := Try(); err != nil {
		b.Skip(err)
	}
	if _, err := os.Stat(reach.Hidden); err != nil {
		b.Skip(err)
	}
	for name, restrict := range map[string]func() error{"plain": func() error { return nil }, "confined": reach.Confine} {
		b.Run(name, func(b *testing.B) {
			before := processor.WithChildren(b)
			for range b.N {
				done := make(chan error, 1)
				go func() {
					runtime.LockOSThread() // the thread ends with the goroutine
					err := restrict()
					if err == nil {
						err = exec.Command("/bin/true").Run()
					}
					done <- err
				}()
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((processor.WithChildren(b)-before).Nanoseconds())/float64(b.N)/1000, "cpu-us/op")
		})
	}
}
