package framework_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// TestAWatchHearsWhatWasDeletedBetweenLeaders: a program that keeps a copy of the store by a watch must not keep a key
// for ever that was deleted while the watch had no leader.
func TestAWatchHearsWhatWasDeletedBetweenLeaders(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "watcher"}, idle{})
		f.AwaitOffers(1)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		store := f.Client().Store()
		for _, key := range []string{"jobs/1", "jobs/2", "jobs/3"} {
			if _, err := store.Put(ctx, key, nil, 0); err != nil {
				t.Fatal(err)
			}
		}
		var told []string
		paused, resume, ended := make(chan bool), make(chan bool), make(chan error)
		enough := errors.New("it has heard of the deletion")
		go func() {
			ended <- store.Watch(ctx, "jobs/", func(entry framework.Entry) error {
				told = append(told, fmt.Sprint(entry.Key, " ", entry.Version, " ", entry.Deleted))
				switch {
				case entry.Deleted && entry.Key == "jobs/2":
					return enough
				case len(told) == 3:
					paused <- true
					<-resume
				}
				return nil
			})
		}()
		<-paused
		c.Leader().Kill()
		for _, key := range []string{"jobs/1", "jobs/2"} {
			if err := store.Delete(ctx, key, framework.AnyVersion); err != nil {
				t.Error(err)
			}
		}
		close(resume)
		if err := <-ended; !errors.Is(err, enough) {
			t.Error(err)
		}
		want := "[jobs/1 1 false jobs/2 2 false jobs/3 3 false jobs/3 3 false jobs/1 5 true jobs/2 5 true]"
		if got := fmt.Sprint(told); got != want {
			t.Errorf("it was told %s, not %s", got, want)
		}
	})
}

// TestAWatchEndsWithItsFunction: when the function of a watch returns an error the watch ends at once, whatever
// changes. It leaves no stream behind, because a framework may have only 16.
func TestAWatchEndsWithItsFunction(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "watcher"}, idle{})
		f.AwaitOffers(1)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		store := f.Client().Store()
		if _, err := store.Put(ctx, "jobs/1", nil, 0); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			calls, enough := 0, errors.New("seen enough")
			err := store.Watch(ctx, "jobs/", func(framework.Entry) error {
				calls++
				return enough
			})
			if !errors.Is(err, enough) || calls != 1 {
				t.Fatalf("watch %d ended after %d calls with %v", i+1, calls, err)
			}
			<-time.After(time.Second) // the master has heard of its end
		}
	})
}
