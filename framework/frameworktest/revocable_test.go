package frameworktest_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// service has one task, which asks for three of the four cpus as firm resources.
func service() *crew {
	return &crew{{ID: "service", Resources: api.Scalars(3, 512), Command: &api.Command{Shell: "sleep infinity"}}}
}

// guests are tasks that run on what others leave unused.
func guests(ids ...api.TaskID) *crew {
	c := sleepers(ids...)
	for i := range *c {
		(*c)[i].Resources = api.Scalars(0.4, 32).AsRevocable()
	}
	return c
}

// TestRevocable: a service leaves most of what it has asked for unused, and guests run on that. When the service needs
// it, guests are killed, the youngest first and no more than necessary, and the service does not notice. (R28)
func TestRevocable(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "firm"}, service())
		f.AwaitState("service", api.TaskRunning)
		shy := c.Start(framework.Config{Name: "shy", Roles: []api.Role{"shy"}}, guests("never"))
		g := c.Start(framework.Config{Name: "guest", Roles: []api.Role{"guest"}, Revocable: true}, guests("g1", "g2", "g3"))
		c.Never(time.Minute, "a task that uses all that it asked for has guests", func() bool { return g.Count(api.TaskRunning) > 0 })

		f.Use("service", api.Scalars(1, 128))
		g.AwaitCount(3, api.TaskRunning)
		c.Advance(time.Minute)
		g.ExpectCount(3, api.TaskRunning)

		f.Use("service", api.Scalars(2.7, 128)) // together with the guests 3.9 of 4 cpus
		g.AwaitState("g3", api.TaskKilled)
		g.ExpectLife("g3", api.TaskRunning, api.TaskKilling, api.TaskKilled)
		g.ExpectReason("g3", api.ReasonRevoked)
		c.Advance(time.Minute)
		g.ExpectCount(2, api.TaskRunning)

		f.Use("service", api.Scalars(4, 128))
		g.AwaitCount(3, api.TaskKilled)
		g.ExpectReason("g1", api.ReasonRevoked)
		c.Advance(time.Minute)
		f.ExpectLife("service", api.TaskRunning)
		shy.ExpectCount(0, api.TaskRunning, api.TaskKilled)
	})
}

// TestRevocableWithoutMaster: the agent protects its firm tasks also while there is no leader.
func TestRevocableWithoutMaster(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "firm"}, service())
		f.Use("service", api.Scalars(1, 128))
		g := c.Start(framework.Config{Name: "guest", Roles: []api.Role{"guest"}, Revocable: true}, guests("g1", "g2", "g3"))
		g.AwaitCount(3, api.TaskRunning)
		leader := c.Leader()
		leader.Kill()
		f.Use("service", api.Scalars(2.7, 128))
		c.Await("one guest to make room", func() bool { return len(c.Agent(1).Tasks()) == 3 })
		leader.Start()
		g.AwaitState("g3", api.TaskKilled)
		g.ExpectReason("g3", api.ReasonRevoked)
		g.ExpectCount(2, api.TaskRunning)
		f.ExpectCount(1, api.TaskRunning)
	})
}
