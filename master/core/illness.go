package core

import (
	"fmt"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

// Illness is what an operator should look at, of an agent beside its state; the names are labels of a metric.
type Illness string

// The illnesses.
const (
	// IllOvercommitted: its tasks hold more than it has, so it is not offered. It came back with less.
	IllOvercommitted Illness = "overcommitted"
	// IllAnotherID: it is away, and an agent of the same host has registered as a new one since.
	IllAnotherID Illness = "another_id"
	// IllVersion: it comes with a version that this leader does not take.
	IllVersion Illness = "version"
	// IllUnable: it can start nothing, as its disk is full or broken. Its state's WHY says so.
	IllUnable Illness = "unable"
	// IllNotMarkedGone: it is away for too long, and so are too many.
	IllNotMarkedGone Illness = "not_marked_gone"
)

// Illnesses in the order in which they are told.
var Illnesses = []Illness{IllOvercommitted, IllAnotherID, IllVersion, IllUnable, IllNotMarkedGone}

// illOf says how an agent is ill, "" when it is not.
func (c *Core) illOf(a *agent, illness Illness) string {
	switch illness {
	case IllOvercommitted:
		if a.over {
			return fmt.Sprintf("its tasks hold more than it has, by %v, so it is not offered", a.used.Firm().Without(a.total))
		}
	case IllAnotherID:
		if now := c.backAs(a); now != "" {
			return fmt.Sprintf("its host has come back as agent %s: if its folder is lost, mark it gone", now)
		}
	case IllVersion:
		if a.refused != "" {
			return "it is refused: " + a.refused
		}
	case IllUnable:
		return a.unable
	case IllNotMarkedGone:
		if a.phase == phaseOverdue && c.overdue.held != "" {
			return "it is not marked gone: " + c.overdue.held
		}
	}
	return ""
}

// whyOf is why an agent is in its state, and what else of it an operator should look at.
func (c *Core) whyOf(a *agent) string {
	var words []string
	if a.why != "" {
		words = append(words, a.why)
	}
	for _, illness := range Illnesses {
		if ill := c.illOf(a, illness); ill != "" && illness != IllUnable { // which a.why has
			words = append(words, ill)
		}
	}
	return strings.Join(words, "; ")
}

// moveHost notes under which hostname an agent is found.
func (c *Core) moveHost(a *agent, from string) {
	if from != a.info.Hostname {
		c.leaveHost(a, from)
	}
	if a.info.Hostname == "" {
		return
	}
	if c.hosts[a.info.Hostname] == nil {
		c.hosts[a.info.Hostname] = make(map[api.AgentID]bool)
	}
	c.hosts[a.info.Hostname][a.id] = true
}

// leaveHost forgets that an agent is found under a hostname.
func (c *Core) leaveHost(a *agent, host string) {
	of := c.hosts[host]
	if delete(of, a.id); len(of) == 0 {
		delete(c.hosts, host)
	}
}

// backAs is the agent that an absent one has become: one of the same host that lives and was admitted when this one had
// left, or that is served at its very address. "" when there is none. Several agents may share a host, so the name alone
// tells nothing.
func (c *Core) backAs(a *agent) api.AgentID {
	known := c.registry.Agents[a.id]
	if a.link != nil || known.Marks.Has(api.MarkGone) || known.Marks.Has(api.MarkDrained) {
		return ""
	}
	for _, id := range sortedKeys(c.hosts[a.info.Hostname]) {
		b, other := c.agents[id], c.registry.Agents[id]
		if b == nil || b.link == nil || compareNatural(string(id), string(a.id)) <= 0 {
			continue
		}
		left := !a.leftAt.IsZero() && other.Admitted.After(a.leftAt)
		if left || a.info.Address != "" && a.info.Address == b.info.Address {
			return id
		}
	}
	return ""
}

// warnOfOthers tells which absent agents a new one of their host may have been.
func (c *Core) warnOfOthers(a *agent) {
	for _, id := range sortedKeys(c.hosts[a.info.Hostname]) {
		if old := c.agents[id]; old != nil && old != a && c.backAs(old) == a.id {
			c.warn("a host is back as another agent", field("agent", id), field("now", a.id), field("host", a.info.Hostname))
		}
	}
}

// versionRefused notes that somebody came with a version that this leader does not take.
func (c *Core) versionRefused(who, why string) {
	c.versions.Count++
	c.versions.At, c.versions.Last = c.now, who+": "+why
	c.warn("version refused", field("who", who), field("why", why))
}

// RefusedVersions are those who came with a version that this leader does not take.
type RefusedVersions struct {
	Count uint64 // in this term
	At    time.Time
	Last  string // who it was, and why
}

// RefusedVersions tells of them.
func (c *Core) RefusedVersions() RefusedVersions { return c.versions }
