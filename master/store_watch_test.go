package master

import (
	"fmt"
	"testing"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/master/registry"
)

// TestAWatcherHoldsALittle (R34): of what has changed a watcher that does not read holds little, however much it is;
// what changes again meanwhile is left for the next look.
func TestAWatcherHoldsALittle(t *testing.T) {
	store := map[string]registry.Entry{}
	var changed []*apiv1.StoreEntry
	for i := range 10 {
		key := fmt.Sprint("k", i)
		store[key] = registry.Entry{Value: make([]byte, watchBytesMax/2), Version: uint64(i + 1)}
		changed = append(changed, &apiv1.StoreEntry{Key: key, Version: uint64(i + 1)})
	}
	changed = append(changed, &apiv1.StoreEntry{Key: "gone", Version: 11, Deleted: true})
	store["k3"] = registry.Entry{Value: []byte("again"), Version: 12}
	delete(store, "k4")
	f := registry.Framework{Store: store}
	var told []string
	for len(changed) > 0 {
		var entries []*apiv1.StoreEntry
		entries, changed = firstValues(f, changed)
		bytes := 0
		for _, entry := range entries {
			bytes += len(entry.GetValue())
			told = append(told, entry.GetKey())
		}
		if bytes > watchBytesMax || len(entries) == 0 {
			t.Errorf("it holds %d bytes in %d entries", bytes, len(entries))
		}
		for _, entry := range changed {
			if entry.Value != nil {
				t.Error("what is sent later is held already")
			}
		}
	}
	if got := fmt.Sprint(told); got != "[k0 k1 k2 k5 k6 k7 k8 k9 gone]" {
		t.Errorf("it was told of %v", got)
	}
	huge := registry.Framework{Store: map[string]registry.Entry{"k": {Value: make([]byte, 4*watchBytesMax), Version: 1}}}
	if entries, rest := firstValues(huge, []*apiv1.StoreEntry{{Key: "k", Version: 1}}); len(entries) != 1 || len(rest) != 0 {
		t.Errorf("of one large value %d come, and %d are left", len(entries), len(rest))
	}
}
