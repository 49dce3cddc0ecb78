package paths

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// BenchmarkConfine runs a program that does nothing: plainly, and with rules that hide a folder about where an agent has
// its own, looked up and taken on anew each time by a thread that ends with it. What it costs is in cpu-us/op.
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
			before := used(b)
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
			b.ReportMetric(float64(used(b)-before)/float64(b.N)/1000, "cpu-us/op")
		})
	}
}

// used is what this process and its children have used, in nanoseconds.
func used(b *testing.B) (all int64) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if err := syscall.Getrusage(who, &usage); err != nil {
			b.Fatal(err)
		}
		all += usage.Utime.Nano() + usage.Stime.Nano()
	}
	return all
}
