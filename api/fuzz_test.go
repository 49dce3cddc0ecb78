package api_test

import (
	"testing"

	"github.com/tenderhq/tender/api"
)

// FuzzResources: whatever people write, it is read as resources that mean the same when they are written and read
// again, or refused.
func FuzzResources(f *testing.F) {
	for _, text := range []string{
		"cpus:4;mem:2048", "ports:[31000-31009,32000-32000]", "disk(web,dynamic,volume=v1):50", "gpus:1;names:{a,b}", "cpus(revocable):0.5",
		"cpus:1e300", "cpus:-1", "mem:0.0001", ";;", "cpus:", "ports:[5-1]",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		resources, err := api.ParseResources(text)
		if err != nil {
			return
		}
		again, err := api.ParseResources(resources.String())
		if err != nil && !resources.IsZero() || err == nil && !again.Equal(resources) {
			t.Fatalf("%q is read as %v, and that as %v: %v", text, resources, again, err)
		}
	})
}
