package manager_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// TestARevocableJob: a job that asks for it runs on what another leaves unused, waits when that needs it, and has failed
// by that no more than by a lost machine. A job that does not ask for it does not.
func TestARevocableJob(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(h *frameworktest.Handle) {
		c := begin(h)
		firm := service("firm", "sleep infinity", 1)
		firm.Task.CPUs, firm.Task.Mem = 3, 512
		c.submit(firm)
		c.awaitRunning("firm", 1)
		host := c.status("firm").Tasks[0].Task
		c.run.Use(host, api.Scalars(1, 128))
		guest, other := service("guest", "sleep infinity", 3), service("other", "sleep infinity", 1)
		guest.Task.CPUs, guest.Task.Mem, guest.Task.Revocable, guest.Task.Attempts = 0.4, 32, true, 1
		other.Task.CPUs = 1.5
		c.submit(guest)
		c.submit(other)
		c.awaitRunning("guest", 3)
		c.run.Use(host, api.Scalars(4, 128))
		c.awaitRunning("guest", 0)
		c.run.Use(host, api.Scalars(1, 128))
		c.awaitRunning("guest", 3)
		c.Never(time.Minute, "a job that asks for firm resources has revocable ones", func() bool { return c.status("other").SubJobs[0].Running > 0 })
		if failures := c.status("guest").Tasks[0].Failures; failures != 0 {
			t.Errorf("what was revoked has failed %d times", failures)
		}
	})
}
