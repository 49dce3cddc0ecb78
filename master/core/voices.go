package core

// refuseVoice counts what an agent says of somebody else's task, executor or framework: it is
// told to nobody (R40).
func (c *Core) refuseVoice(a *agent, what string) {
	c.voices++
	if c.config.Debug {
		c.debug("word refused", field("agent", a.id), field("why", "it has nothing of that: "+what))
	}
}
