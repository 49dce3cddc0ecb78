// Command nightly runs a list of jobs to their end, whatever becomes of its schedulers:
// start it as often as you like, one instance works and the others wait. With the last
// job the framework ends, and with it what it remembers as done: an instance that still
// waits then begins the list anew, so end those first where that is not wanted. It is
// the fourth program of docs/write-a-framework.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/taskset"
)

// config is the same in all instances, so they are one framework. Its tasks live on for an hour without any instance.
var config = framework.Config{Name: "nightly", Standby: true, FailoverTimeout: time.Hour}

// newSet returns the scheduler: what is to be done, and how.
func newSet() (*taskset.Set, error) {
	set := taskset.New(taskset.Config{
		Remember:    "jobs", // in the masters' store: what is done stays done
		Unreachable: -1,     // never two tasks of one job at once: wait for a silent agent
		Ended:       func(o taskset.Outcome) { fmt.Println(o.Item, "is done") },
	})
	for job := range 20 {
		err := set.Add(context.Background(), taskset.Item{ID: fmt.Sprintf("job-%d", job), Task: api.Task{
			Resources: api.Scalars(0.5, 64),
			Command:   &api.Command{Argv: []string{"sleep", "2"}},
		}})
		if err != nil {
			return nil, err
		}
	}
	set.Close() // no more jobs will come: Run ends with the last
	return set, nil
}

func main() {
	set, err := newSet()
	if err != nil {
		log.Fatal(err)
	}
	config.Masters = strings.Split(cmp.Or(os.Getenv("TENDER_MASTER"), framework.DefaultMaster), ",")
	config.Logger = slog.Default() // logs whether this instance works or waits
	err = framework.Run(context.Background(), config, set)
	if err := errors.Join(err, set.Err()); err != nil {
		log.Fatal(err)
	}
}
