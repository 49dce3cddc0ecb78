package core

import (
	"math"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// smoothing is how long a change of use takes to count in full (R28).
const smoothing = 10 * time.Second

// smoothed is what an agent's tasks really use, averaged over the samples of a session.
type smoothed struct {
	at       time.Time
	cpu, mem float64
	told     api.Resources // to the policy
}

// used takes a sample. The policy hears of it when it has moved by more than a
// twentieth of what the agent has: it is asked to think each time.
func (c *Core) used(a *agent, sample protocol.UsageReport) {
	a.usage = sample
	var cpu, mem float64
	for _, use := range sample.Executors { // order: irrelevant because it sums whole numbers
		cpu += float64(use.CPU)
		mem += float64(use.Mem)
	}
	share := 1.0
	if !a.smooth.at.IsZero() {
		share = 1 - math.Exp(-float64(c.now.Sub(a.smooth.at))/float64(smoothing))
	}
	a.smooth.at = c.now
	a.smooth.cpu += share * (cpu - a.smooth.cpu)
	a.smooth.mem += share * (mem - a.smooth.mem)
	told := api.NewResources(
		api.Resource{Label: api.Label{Name: "cpus"}, Scalar: inSteps(a.smooth.cpu, a.total.Scalar("cpus"))},
		api.Resource{Label: api.Label{Name: "mem"}, Scalar: inSteps(a.smooth.mem, a.total.Scalar("mem"))},
	)
	if !told.Equal(a.smooth.told) {
		a.smooth.told = told
		c.policy.Use(a.id, told)
	}
}

// forgetUse ends the samples with their session. The policy forgets them too: samples of
// the next session are compared with nothing.
func (c *Core) forgetUse(a *agent) {
	if !a.smooth.told.IsZero() {
		c.policy.Use(a.id, api.Resources{})
	}
	a.smooth = smoothed{}
}

// inSteps rounds to twentieths of the total.
func inSteps(amount float64, total api.Milli) api.Milli {
	step := float64(total) / 20
	if step < 1 {
		return api.Milli(amount)
	}
	return api.Milli(math.Round(amount/step) * step)
}
