package core

import "github.com/tenderhq/tender/internal/protocol"

// volumeDone answers DestroyVolume.
func (c *Core) volumeDone(a *agent, done protocol.VolumeDone) {
	c.info("volume destroyed", field("agent", a.id), field("volume", done.Volume), Field{Name: "error", Value: done.Err})
}
