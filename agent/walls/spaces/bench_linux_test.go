package spaces

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/internal/testing/machine"
	"github.com/tenderhq/tender/internal/testing/processor"
)

// BenchmarkStart runs a program that does nothing: plainly, and in walls of its own. What it costs is in cpu-us/op.
func BenchmarkStart(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	files := [3]uintptr{null.Fd(), null.Fd(), null.Fd()}
	b.Run("plain", func(b *testing.B) {
		before := processor.WithChildren(b)
		for range b.N {
			pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Files: files[:]})
			if err := errors.Join(err, await(pid)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64((processor.WithChildren(b)-before).Nanoseconds())/float64(b.N)/1000, "cpu-us/op")
	})
	b.Run("walled", func(b *testing.B) {
		view := View{Temporary: b.TempDir()}
		machine.GivesNamespaces(b, Try(view))
		spawner, err := OpenSpawner()
		if err != nil {
			b.Fatal(err)
		}
		before := processor.WithChildren(b)
		for range b.N {
			pid, err := spawner.Start(Order{View: view, Path: "/bin/true", Argv: []string{"true"}, Folder: "/"}, files)
			if err := errors.Join(err, await(pid)); err != nil {
				b.Fatal(err)
			}
		}
		if err := errors.Join(spawner.Forget(), await(spawner.process)); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64((processor.WithChildren(b)-before).Nanoseconds())/float64(b.N)/1000, "cpu-us/op")
	})
}
