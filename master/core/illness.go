package core

import "strings"

// whyOf is why an agent is in its state, and what else of it an operator should look at.
func (c *Core) whyOf(a *agent) string {
	words := c.illnesses(a)
	if a.why != "" {
		words = append([]string{a.why}, words...)
	}
	return strings.Join(words, "; ")
}

// illnesses are what is wrong with an agent beside its state.
func (c *Core) illnesses(a *agent) (words []string) {
	if a.overdue && c.overdue.held != "" {
		words = append(words, "it is not marked gone: "+c.overdue.held)
	}
	return words
}
