package framework_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// The store keeps small values on a majority of the masters. A write names the version that it has seen, so that two
// instances never overwrite each other's values.
func ExampleStore() {
	frameworktest.Example(frameworktest.Cluster{Masters: 3}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "keeper"}, idle{})
		f.AwaitOffers(1)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		store := f.Client().Store()
		if err := keep(ctx, store, c.Leader().Kill); err != nil {
			fmt.Println(err)
		}
	})
	// Output:
	// the first version: 1
	// a second writer who saw nothing: stale
	// after a failover: done/1 = 2026-01-02
	// deleted: 0 keys
}

func keep(ctx context.Context, store *framework.Store, kill func()) error {
	entry, err := store.Put(ctx, "done/1", []byte("2026-01-01"), 0) // 0: only if the key does not exist
	if err != nil {
		return err
	}
	fmt.Println("the first version:", entry.Version)
	_, err = store.Put(ctx, "done/1", []byte("2025-12-31"), 0)
	fmt.Println("a second writer who saw nothing:", api.KindOf(err))
	if entry, err = store.Put(ctx, "done/1", []byte("2026-01-02"), entry.Version); err != nil {
		return err
	}
	kill() // the next call waits for the next leader
	entries, err := store.List(ctx, "done/")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		fmt.Printf("after a failover: %s = %s\n", entry.Key, entry.Value)
	}
	if err := store.Delete(ctx, "done/1", entry.Version); err != nil {
		return err
	}
	entries, err = store.List(ctx, "")
	fmt.Println("deleted:", len(entries), "keys")
	return err
}
