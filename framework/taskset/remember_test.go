package taskset_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/taskset"
)

// TestRememberForgets: a queue that lives long keeps only the latest records, as many as it says, also after a
// takeover. It keeps no record of an item that was removed.
func TestRememberForgets(t *testing.T) {
	cluster := frameworktest.Cluster{Script: func(task api.Task) frameworktest.Play {
		if task.Name == "fails" {
			return frameworktest.Play{ExitCode: 1}
		}
		return frameworktest.Play{Duration: time.Second}
	}}
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		config := taskset.Config{Remember: "jobs", RememberMost: 5, Pause: time.Hour, PauseMax: time.Hour}
		set := taskset.New(config)
		f := c.Start(framework.Config{Name: "queue", FailoverTimeout: time.Hour}, set)
		run := func(from, to int) {
			before := set.Numbers().Done
			for i := from; i < to; i++ {
				item := command(fmt.Sprintf("job-%02d", i), "x")
				if err := set.Add(context.Background(), item); err != nil {
					t.Fatal(err)
				}
				c.Await("the job to end", func() bool { return set.Numbers().Done == before+i+1-from })
			}
		}
		wantRecords := func(want ...string) {
			t.Helper()
			var keys []string
			c.Await("the records to be "+fmt.Sprint(want), func() bool {
				entries, err := f.Client().Store().List(c.T().Context(), "jobs/")
				if err != nil {
					t.Fatal(err)
				}
				keys = nil
				for _, entry := range entries {
					keys = append(keys, entry.Key)
				}
				return fmt.Sprint(keys) == fmt.Sprint(want)
			})
		}
		failing := command("bad", "x")
		failing.Task.Name = "fails"
		if err := set.Add(context.Background(), failing); err != nil {
			t.Fatal(err)
		}
		f.AwaitCount(1, api.TaskFailed)
		run(0, 8)
		wantRecords("jobs/bad", "jobs/job-03", "jobs/job-04", "jobs/job-05", "jobs/job-06", "jobs/job-07")
		if err := set.Remove(context.Background(), "bad"); err != nil {
			t.Fatal(err)
		}
		f.Kill()
		set = taskset.New(config)
		f = f.Again(set)
		c.Advance(time.Minute)
		run(8, 11)
		wantRecords("jobs/bad", "jobs/job-06", "jobs/job-07", "jobs/job-08", "jobs/job-09", "jobs/job-10")
		if err := set.Add(context.Background(), failing); err != nil {
			t.Fatal(err)
		}
		if err := set.Remove(context.Background(), "bad"); err != nil {
			t.Fatal(err)
		}
		run(11, 14)
		wantRecords("jobs/job-09", "jobs/job-10", "jobs/job-11", "jobs/job-12", "jobs/job-13")
	})
}
