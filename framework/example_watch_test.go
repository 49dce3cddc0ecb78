package framework_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

var errSeenEnough = errors.New("seen enough")

// Watch tells the present entries and then what changes, until its function fails or its context ends. It tells each
// key as it is when it looks, not every write. To make sure that two writes are both seen, make the second after the
// first was seen.
func ExampleStore_Watch() {
	frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "watcher"}, idle{})
		f.AwaitOffers(1)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		store := f.Client().Store()
		if _, err := store.Put(ctx, "jobs/1", []byte("waiting"), 0); err != nil {
			fmt.Println(err)
		}
		err := store.Watch(ctx, "jobs/", func(entry framework.Entry) (err error) {
			if entry.Deleted {
				fmt.Println(entry.Key, "is gone")
				return errSeenEnough
			}
			fmt.Printf("%s is %s\n", entry.Key, entry.Value)
			if string(entry.Value) == "waiting" {
				_, err = store.Put(ctx, entry.Key, []byte("running"), entry.Version)
				return err
			}
			return store.Delete(ctx, entry.Key, entry.Version)
		})
		fmt.Println(err)
	})
	// Output:
	// jobs/1 is waiting
	// jobs/1 is running
	// jobs/1 is gone
	// seen enough
}
