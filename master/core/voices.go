package core

// refuseVoice counts what an agent says of somebody else's task, executor or framework: it is
// told to nobody (R40).
func (b *base) refuseVoice(a *agent, what string) {
	b.voices++
	if b.config.Debug {
		b.debug("word refused", field("agent", a.id), field("why", "it has nothing of that: "+what))
	}
}

// WordsInVain is how often agents have said something of that, or of a framework that is not there any more. An honest
// agent does so for each of its tasks at most.
func (c *Core) WordsInVain() uint64 { return c.voices + c.strays }
