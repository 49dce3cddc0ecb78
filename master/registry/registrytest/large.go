// Package registrytest makes registries for the tests of packages that use one.
package registrytest

import (
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

// Knowing lets this program know formats up to the given one until restore is called. Nothing else may run beside it
// that reads or writes registries.
func Knowing(format uint64) (restore func()) {
	was := registry.Format
	registry.Format = format
	return func() { registry.Format = was }
}

// Large returns the registry of a founded cluster with that many agents and frameworks.
func Large(agents, frameworks int) *registry.State {
	state := registry.New()
	state.Apply(registry.Command{Change: registry.Bootstrap{Cluster: "tender"}})
	resources, err := api.ParseResources("cpus:64;mem:262144;disk:1000000;ports:[31000-32000]")
	if err != nil {
		panic(err) // our own text, so it can't be wrong
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
