package core

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// checkVolumes looks for volumes that the registry does not know. They are kept, for
// only a Destroy that names one may delete it (R22).
func (c *Core) checkVolumes(a *agent, r *report) {
	known := make(map[api.VolumeID]bool)
	for _, item := range c.registry.Agents[a.id].Reserved.Items() {
		known[item.Volume] = true
	}
	for _, item := range r.volumes.Items() {
		if !known[item.Volume] {
			c.info("volume is orphaned", field("agent", a.id), field("volume", item.Volume))
		}
	}
}

// volumeDone answers DestroyVolume.
func (c *Core) volumeDone(a *agent, done protocol.VolumeDone) {
	c.info("volume destroyed", field("agent", a.id), field("volume", done.Volume), Field{Name: "error", Value: done.Err})
}
