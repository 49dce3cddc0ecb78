package api

import (
	"fmt"
	"strings"
)

// Place is the kind of place that counts as one when tasks are spread: [ByAgent], [ByZone], [ByRegion] or
// [ByAttribute].
type Place string

// The places that need no attribute.
const (
	ByAgent  Place = "agent"
	ByZone   Place = "zone" // zones of the same name in two regions are two
	ByRegion Place = "region"
)

const attributePrefix = "attribute:"

// ByAttribute makes each value of an attribute of the agents one place. All agents without the attribute are one place
// together.
func ByAttribute(name string) Place { return Place(attributePrefix + name) }

// Of returns the name of the place in which an agent of this description is.
func (p Place) Of(agent AgentID, region, zone string, attributes map[string]string) string {
	switch p {
	case ByAgent:
		return string(agent)
	case ByZone:
		return region + "/" + zone
	case ByRegion:
		return region
	}
	return attributes[strings.TrimPrefix(string(p), attributePrefix)]
}

// OfOffer returns the name of the place in which the offer's agent is.
func (p Place) OfOffer(offer Offer) string {
	return p.Of(offer.Agent, offer.Region, offer.Zone, offer.Attributes)
}

// Words returns the kind of place in words for people: "agent", "attribute rack".
func (p Place) Words() string {
	if name, attribute := strings.CutPrefix(string(p), attributePrefix); attribute {
		return "attribute " + name
	}
	return string(p)
}

// Check reports why p is no kind of place, or nil.
func (p Place) Check() error {
	if p == ByAgent || p == ByZone || p == ByRegion {
		return nil
	}
	if name, attribute := strings.CutPrefix(string(p), attributePrefix); attribute {
		return CheckID("an attribute's name", name)
	}
	return fmt.Errorf("place %q must be agent, zone, region or attribute:NAME", string(p))
}

// Spread spreads the tasks of a group over as many places as there are. The next offer is of the place with the fewest
// of the tasks, among the places that have room for one.
type Spread struct {
	By   Place
	Most int64 // at most this many in one place; 0 = as many as there is room for
}

// Check reports why s can't be part of a demand, or nil.
func (s Spread) Check() error {
	if s.Most < 0 {
		return fmt.Errorf("at most %d in a place; it must be at least 1, or 0 for no bound", s.Most)
	}
	return s.By.Check()
}
