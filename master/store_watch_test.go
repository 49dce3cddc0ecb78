package master

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenderhq/tender/api"
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

// TestPagesOfAStore: page after page, each key under the prefix comes once and in order, and no page is larger than asked
// for or than a message may be.
func TestPagesOfAStore(t *testing.T) {
	store, want := map[string]registry.Entry{"a": {}, "jobs": {}, "k": {}}, []string(nil)
	for i := range 2100 {
		key := fmt.Sprintf("jobs/%d", i*7919%2100)
		store[key] = registry.Entry{Value: make([]byte, i%500), Version: uint64(i + 1)}
		want = append(want, key)
	}
	slices.Sort(want)
	for _, limit := range []int{1, 7, 999, 0} {
		var got []string
		for token, more := "", true; more; more = token != "" {
			page := listStore(registry.Framework{Store: store}, &apiv1.StoreListRequest{Prefix: "jobs/", Limit: int32(limit)}, token)
			bytes := 0
			for _, entry := range page.GetItems() {
				got = append(got, entry.GetKey())
				bytes += len(entry.GetKey()) + len(entry.GetValue())
			}
			if n := len(page.GetItems()); limit > 0 && n > limit || n > api.PageItemsMax || bytes > listBytesMax {
				t.Fatalf("a page of at most %d has %d entries of %d bytes", limit, n, bytes)
			}
			token = page.GetNextPageToken()
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d bring %d keys, or in another order; there are %d", limit, len(got), len(want))
		}
	}
	large := map[string]registry.Entry{"a": {Value: make([]byte, listBytesMax)}, "b": {Value: make([]byte, listBytesMax)}}
	page := listStore(registry.Framework{Store: large}, &apiv1.StoreListRequest{}, "")
	if len(page.GetItems()) != 1 || page.GetNextPageToken() != "a" {
		t.Errorf("of two large values %d come at once, and the next page begins behind %q", len(page.GetItems()), page.GetNextPageToken())
	}
}

// TestTokensOfPages: a token says where the next page begins and which leadership made the page before. Tokens of older
// masters say only where, and so does a text that is no token of ours.
func TestTokensOfPages(t *testing.T) {
	for token, want := range map[string][2]string{
		"": {"", ""}, "jobs/a": {"", "jobs/a"}, "\x00": {"", "\x00"}, "\x007": {"", "\x007"},
		tokenOf(api.Term{Number: 7}, "jobs/a"):               {"7", "jobs/a"},
		tokenOf(api.Term{Number: 7, Epoch: 2}, "jobs/\x00a"): {"7e2", "jobs/\x00a"},
	} {
		if term, key := splitToken(token); term != want[0] || key != want[1] {
			t.Errorf("%q is read as %q behind %q, not %q", token, term, key, want)
		}
	}
}

// BenchmarkPageOfAStore is a page out of the middle of a store such as a manager of 10,000 jobs has. The leader's loop
// makes it.
func BenchmarkPageOfAStore(b *testing.B) {
	store := map[string]registry.Entry{}
	for i := range 10_000 {
		for key, size := range map[string]int{"job": 200, "part/main/0": 1500, "version/1": 300} {
			store[fmt.Sprintf("jobs/job-%05d/%s", i, key)] = registry.Entry{Value: make([]byte, size)}
		}
	}
	r := &apiv1.StoreListRequest{Prefix: "jobs/"}
	for b.Loop() {
		listStore(registry.Framework{Store: store}, r, "jobs/job-05000/job")
	}
}
