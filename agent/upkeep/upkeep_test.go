package upkeep

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
)

func write(t *testing.T, bytes int, parts ...string) {
	t.Helper()
	path := filepath.Join(parts...)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, make([]byte, bytes), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// measured returns the size that the keeper finds for a folder.
func measured(folder string, most int64) int64 {
	return New(Config{}).measure(core.Sandbox{Folder: folder, DiskMax: most})
}

func TestMeasure(t *testing.T) {
	folder := t.TempDir()
	if got := measured(filepath.Join(folder, "nothing"), 0); got != 0 {
		t.Errorf("a folder that is not there has %d bytes", got)
	}
	const mb = 1 << 20
	write(t, mb, folder, "a")
	write(t, 2*mb, folder, "below", "deeper", "b")
	near := func(what string, got, want int64) {
		t.Helper()
		if got < want || got > want+want/4 { // folders take some space too
			t.Errorf("%s has %d bytes, wanted about %d", what, got, want)
		}
	}
	near("a tree", measured(folder, 0), 3*mb)
	if err := os.Link(filepath.Join(folder, "a"), filepath.Join(folder, "below", "again")); err != nil {
		t.Fatal(err)
	}
	near("a tree with a file of two names", measured(folder, 0), 3*mb)
	elsewhere := t.TempDir()
	write(t, 8*mb, elsewhere, "large")
	if err := errors.Join(os.Symlink(elsewhere, filepath.Join(folder, "out")), os.Symlink(folder, filepath.Join(folder, "round"))); err != nil {
		t.Fatal(err)
	}
	near("a tree with links", measured(folder, 0), 3*mb)
	write(t, 0, folder, "hole")
	if err := os.Truncate(filepath.Join(folder, "hole"), 100*mb); err != nil {
		t.Fatal(err)
	}
	near("a tree with a hole", measured(folder, 0), 3*mb)
	if got := measured(folder, mb); got <= mb || got > 3*mb+mb {
		t.Errorf("a tree that is known to be over 1 MB has %d bytes", got)
	}
}

// What can't be walked counts as larger than any limit, so that nobody can hide that way.
func TestWhatCannotBeMeasuredIsOverEveryBound(t *testing.T) {
	folder := t.TempDir()
	deep := filepath.Join(folder, strings.Repeat("d/", depthMax+2))
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := measured(folder, 1<<40); got != math.MaxInt64 {
		t.Errorf("%d folders in each other have %d bytes", depthMax+2, got)
	}
}

// Sandboxes of ended tasks are measured once, those of living tasks if they have a limit, those of executors never, and
// volumes always. What a volume holds is never trimmed, however its files are called.
func TestWhoIsMeasured(t *testing.T) {
	folder := t.TempDir()
	var all []core.Sandbox
	for _, name := range []string{"ended", "bounded", "unbounded", ""} {
		write(t, 1<<20, folder, "of-"+name, "file")
		one := core.Sandbox{Folder: filepath.Join(folder, "of-"+name), Ended: name == "ended"}
		if name != "" {
			one.Task = api.TaskRef{Framework: "f1", Task: api.TaskID(name)}
		}
		if name == "bounded" {
			one.DiskMax = 1 << 19
		}
		all = append(all, one)
	}
	write(t, 3<<20, folder, "v1", "stdout")
	all = append(all, core.Sandbox{Volume: "v1", Folder: filepath.Join(folder, "v1"), DiskMax: 1 << 30})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var told core.Measured
	New(Config{
		OutputMax: 1 << 16, Log: zerolog.Nop(), Look: func(context.Context) ([]core.Sandbox, bool) { return all, true },
		Tell: func(_ context.Context, measured core.Measured) bool {
			told = measured
			return false
		},
	}).Run(ctx)
	if len(told.Sandboxes) != 2 || told.Sandboxes[api.TaskRef{Framework: "f1", Task: "ended"}] < 1<<20 ||
		told.Sandboxes[api.TaskRef{Framework: "f1", Task: "bounded"}] <= 1<<19 || len(told.Volumes) != 1 || told.Volumes["v1"] < 3<<20 {
		t.Errorf("told: %v", told)
	}
}

// If an output exceeds its limit between two looks, the pause is shorter. Looking never takes a whole processor.
func TestRests(t *testing.T) {
	for _, c := range []struct{ excess, most, took, want int64 }{
		{0, 100, 0, 1000}, {100, 100, 0, 1000}, {200, 100, 0, 500}, {1 << 40, 100, 0, 50}, {1 << 40, 100, 100, 300}, {0, 0, 0, 1000},
	} {
		const ms = 1_000_000
		if got := int64(restAfter(c.excess, c.most, time.Duration(c.took)*time.Millisecond)); got != c.want*ms {
			t.Errorf("%+v: %d ms", c, got/ms)
		}
	}
}
