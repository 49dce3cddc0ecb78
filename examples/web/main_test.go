package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/taskset"
)

// TestWeb: the file says where the servers are. The next instance writes the same after a takeover
// from a new leader, and a server whose machine is lost is replaced. One with another command rolls.
func TestWeb(t *testing.T) {
	resources, err := api.ParseResources("cpus:4;mem:4096;ports:[31000-31009]")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cluster := frameworktest.Cluster{Masters: 3, Agents: 4, Machine: frameworktest.Machine{Resources: resources}}
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		config := framework.Config{Name: "web", Standby: true}
		start := func(file, command string) *frameworktest.Framework {
			web, err := newWeb(3, command, filepath.Join(folder, file))
			if err != nil {
				t.Fatal(err)
			}
			return c.Start(config, web)
		}
		servers := func(file string) (lines []string) {
			text, _ := os.ReadFile(filepath.Join(folder, file)) // not there yet: none
			return slices.Collect(strings.Lines(string(text)))
		}
		first := start("first", "sleep infinity")
		c.Await("three servers", func() bool { return len(servers("first")) == 3 })
		before := servers("first")
		c.Leader().Kill()
		first.Kill()
		next := start("next", "sleep infinity")
		c.Await("the same servers", func() bool { return slices.Equal(servers("next"), before) })
		for _, agent := range c.Agents() {
			if len(agent.Tasks()) > 0 {
				agent.Lose()
				break
			}
		}
		c.Await("three servers, one of them elsewhere", func() bool {
			after := servers("next")
			return len(after) == 3 && !slices.Equal(after, before)
		})
		t.Logf("before %q, after %q", before, servers("next"))
		next.Kill()
		third := start("third", "sleep 1; sleep infinity")
		c.Await("servers that run the new command, never less than two of three", func() bool {
			if n := len(servers("third")); n > 0 && n < 2 {
				t.Errorf("%d servers", n)
			}
			web := third.Scheduler().(*taskset.Set).Services()[0]
			return web.Rolling.Done && len(servers("third")) == 3
		})
	})
}
