package api

import "time"

// Agent is what an agent says of itself when it registers.
type Agent struct {
	ID         AgentID
	Hostname   string
	Resources  Resources         // total of the agent; reserved parts carry their role
	Attributes map[string]string // what constraints see: rack, disk=ssd, ...
	Region     string            // failure domain above the zone; "" = unknown
	Zone       string
	Address    string // host:port of its HTTP listener (logs); "" = none
	Version    string
}

// Has reports whether the agent has the attribute with this value. Its zone and region count as the attributes "zone"
// and "region", unless the agent has an attribute of its own by that name.
func (a Agent) Has(attribute, value string) bool {
	switch own, is := a.Attributes[attribute]; {
	case is:
		return own == value
	case attribute == string(ByZone):
		return a.Zone == value
	case attribute == string(ByRegion):
		return a.Region == value
	}
	return false
}

// Usage is what a task, an executor or an agent really used at one moment.
type Usage struct {
	At    time.Time
	CPU   Milli         // cores in use since the last sample, in thousandths
	CPUs  time.Duration // processor time used since its start
	Mem   Milli         // resident memory, in MB like the resource "mem"
	Procs int           // processes
}

// Mark is a decision of an operator about an agent, beside the agent's state.
type Mark uint8

// The marks of an agent. They are bits, so that an agent can have several.
const (
	MarkDraining    Mark = 1 << iota // no offers; tasks are killed; launches DROPPED (AGENT_DRAINING)
	MarkDrained                      // draining has come to its end (R31)
	MarkDeactivated                  // no offers; tasks go on
	MarkGone                         // will never come back
)

// Has reports whether all bits of other are set.
func (m Mark) Has(other Mark) bool { return m&other == other }

// Strings lists the marks by name.
func (m Mark) Strings() []string {
	var names []string
	for i, name := range []string{"draining", "drained", "deactivated", "gone"} {
		if m&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}
