package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/locality"
)

const hashOfHello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

// TestBatch: a file that can't be read at first, one that is not there, one that is far.
func TestBatch(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "flaky", "far"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("hello"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var tries atomic.Int32
	cluster := frameworktest.Cluster{Agents: 2, Executors: map[api.ExecutorID]frameworktest.ExecutorFunc{
		"sum": func(ctx context.Context, task *executor.Task) error {
			if strings.HasSuffix(string(task.Data), "flaky") && tries.Add(1) < 3 {
				return errors.New("the disk is busy")
			}
			return sum(ctx, task)
		},
	}}
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		var out strings.Builder
		b := batch{executor: &api.Executor{ID: "sum", Command: api.Command{Argv: []string{"batch"}}}, wait: 3 * time.Second, attempts: 3, out: &out}
		set, err := b.set([]string{
			filepath.Join(dir, "a") + "@agent-host-2", filepath.Join(dir, "flaky"), filepath.Join(dir, "none"), filepath.Join(dir, "far") + "@elsewhere",
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(framework.Config{Name: "batch"}, set).Await(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "flaky", "far"} {
			if want := hashOfHello + "  " + filepath.Join(dir, name) + "\n"; !strings.Contains(out.String(), want) {
				t.Errorf("no %q in:\n%s", want, out.String())
			}
		}
		if err := set.Err(); err == nil || !strings.Contains(err.Error(), "3 attempts failed") || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("the file that is not there: %v", err)
		}
		if n := set.Locality(); n.Launched != [3]int{locality.Node: 1, locality.Any: 1} || n.Longest < 3*time.Second {
			t.Errorf("locality %+v", n)
		}
	})
}
