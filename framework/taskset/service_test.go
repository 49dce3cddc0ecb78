package taskset_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/taskset"
)

// TestAServiceHasWhatScaleSays: nothing but Scale takes items from a service, and no other item counts as one of it.
func TestAServiceHasWhatScaleSays(t *testing.T) {
	set := taskset.New(taskset.Config{})
	if err := set.Scale(context.Background(), "w", command("", "sleep infinity"), 5); err != nil {
		t.Fatal(err)
	}
	if err := set.Remove(context.Background(), "w-1"); !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), "one of the 5 that Scale keeps of service w") {
		t.Errorf("one of five is removed: %v", err)
	}
	if n, services := set.Numbers(), set.Services(); n.Items != 5 || services[0].Count != 5 {
		t.Errorf("there are %d items, and the service counts %d", n.Items, services[0].Count)
	}
	if err := set.Add(context.Background(), command("v-1", "true")); err != nil {
		t.Fatal(err)
	}
	if err := set.Scale(context.Background(), "v", command("", "sleep infinity"), 2); !api.Is(err, api.Exists) || !strings.Contains(err.Error(), "v-1") {
		t.Errorf("somebody else's item is taken for one of the service: %v", err)
	}
	if err := set.Remove(context.Background(), "v-1", "nobody"); err != nil {
		t.Error(err)
	}
	if err := set.Scale(context.Background(), "v", command("", "sleep infinity"), 2); err != nil || set.Numbers().Items != 7 {
		t.Errorf("%v, %d items", err, set.Numbers().Items)
	}
}
