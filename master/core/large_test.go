package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/registry"
)

// BenchmarkLargeFailover: a leader begins with 50,000 agents and 1,000 frameworks of
// which none comes back.
func BenchmarkLargeFailover(b *testing.B) {
	state := largeRegistry(50_000, 1_000)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []string{"begin", "tombstone", "list", "allocate"} {
		b.Run(step, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				c := core.New(core.Config{Master: "m1"}, state, api.Term{Number: 1}, policyNamed("fairshare")(), now)
				b.StartTimer()
				switch step {
				case "begin":
					core.New(core.Config{Master: "m1"}, state, api.Term{Number: 1}, policyNamed("fairshare")(), now)
				case "tombstone":
					at := now.Add(31 * time.Second)
					c.Step(core.Event{At: at, What: core.Woken{}})
				case "list":
					c.Agents(core.Query{Limit: 1})
				case "allocate":
					c.Allocate(now)
				}
			}
		})
	}
}

func largeRegistry(agents, frameworks int) *registry.State {
	state := registry.New()
	state.Apply(registry.Command{Change: registry.Bootstrap{Cluster: "tender"}})
	resources, err := api.ParseResources("cpus:64;mem:262144;disk:1000000;ports:[31000-32000]")
	if err != nil {
		panic(err)
	}
	for i := range agents {
		state.Apply(registry.Command{Change: registry.AdmitAgent{
			Agent: api.Agent{Hostname: fmt.Sprint("node-", i), Resources: resources, Attributes: map[string]string{"rack": fmt.Sprint(i / 40)}},
			Nonce: api.Nonce(fmt.Sprint("nonce-", i)),
		}})
	}
	for i := range frameworks {
		state.Apply(registry.Command{Change: registry.Subscribe{
			Framework: api.Framework{Name: fmt.Sprint("f", i), Roles: []api.Role{api.Role(fmt.Sprint("team/", i))}},
			Instance:  api.Nonce(fmt.Sprint("instance-", i)),
		}})
	}
	return state
}
