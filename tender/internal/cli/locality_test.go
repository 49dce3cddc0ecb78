package cli_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/locality"
	"github.com/tenderhq/tender/framework/taskset"
	"github.com/tenderhq/tender/internal/words"
)

// TestLocalityIsShown: twelve tasks want an agent that has room for eight. While the others wait for it, explain says
// so. When they have gone elsewhere, describe and the metrics say what that has cost.
func TestLocalityIsShown(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3}, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{Locality: locality.Config{Node: locality.Wait{Time: 5 * time.Second}, Withhold: true}})
		for i := range 12 {
			err := set.Add(context.Background(), taskset.Item{
				ID:     fmt.Sprint("block-", i),
				Task:   api.Task{Resources: api.Scalars(0.5, 128), Command: &api.Command{Shell: "sleep 60"}},
				Prefer: locality.Prefer{Agents: []api.AgentID{c.Agent(2).ID()}},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		f := c.Start(framework.Config{Name: "batch"}, set)
		operator := shell{env: map[string]string{"TENDER_MASTER": strings.Join(c.MasterAddresses(), ",")}, dial: c.Dial}
		ask := func(args ...string) string {
			out, complaint, code := operator.run(c.T(), args...)
			if code != 0 {
				t.Fatalf("tender %v: %d %s", args, code, complaint)
			}
			return out
		}

		f.AwaitCount(8, api.TaskRunning)
		wants(t, ask("explain", string(f.ID())), "2 of 3 agents are not among the preferred", "is waiting for locality: ")
		wants(t, ask("explain", string(f.ID()), "--agent", string(c.Agent(1).ID())),
			fmt.Sprintf("%s is waiting for locality: %s is none of the agents that it prefers", f.ID(), c.Agent(1).ID()))

		f.AwaitCount(12, api.TaskRunning)
		n := set.Locality()
		if n.Launched != [3]int{locality.Node: 8, locality.Any: 4} {
			t.Fatalf("the framework counts %+v", n)
		}
		wants(t, ask("describe", "framework", string(f.ID())), fmt.Sprintf(
			"66.7 %% of 12 tasks on a preferred agent, 0 near one, 4 elsewhere; waited %s on average, %s at most",
			words.Span(n.MeanWait().Round(100*time.Millisecond)), words.Span(n.Longest)))
		metrics := scrape(t, c)
		wants(t, metrics,
			fmt.Sprintf(`tender_placements_total{framework="%s",level="node"} 8`, f.ID()),
			fmt.Sprintf(`tender_placements_total{framework="%s",level="any"} 4`, f.ID()),
			fmt.Sprintf(`tender_placement_wait_seconds_total{framework="%s"} %v`, f.ID(), n.Waited.Seconds()))
	})
}

func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}

// scrape reads the leader's metrics as Prometheus does.
func scrape(t *testing.T, c *frameworktest.Handle) string {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	transport.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) { return c.Dial(ctx, address) }
	answer, err := (&http.Client{Transport: transport}).Get("http://" + c.Leader().HTTPAddress() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
