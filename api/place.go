package api

import (
	"fmt"
	"strings"
)

// Place says what of the cluster counts as one place: [ByAgent], [ByZone], [ByRegion] or [ByAttribute].
type Place string

// The places that every agent has.
const (
	ByAgent  Place = "agent"
	ByZone   Place = "zone" // zones of the same name in two regions are two
	ByRegion Place = "region"
)

const attributePrefix = "attribute:"

// ByAttribute tells places apart by an attribute of the agents; those without it are one place.
func ByAttribute(name string) Place { return Place(attributePrefix + name) }

// Of names the place of an agent that is described so.
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

// OfOffer names the place of the offer's agent.
func (p Place) OfOffer(offer Offer) string {
	return p.Of(offer.Agent, offer.Region, offer.Zone, offer.Attributes)
}

// Words name the kind of place for people: "agent", "attribute rack".
func (p Place) Words() string {
	if name, attribute := strings.CutPrefix(string(p), attributePrefix); attribute {
		return "attribute " + name
	}
	return string(p)
}

// Check reports why p is no place.
func (p Place) Check() error {
	if p == ByAgent || p == ByZone || p == ByRegion {
		return nil
	}
	if name, attribute := strings.CutPrefix(string(p), attributePrefix); attribute {
		return CheckID("an attribute's name", name)
	}
	return fmt.Errorf("place %q must be agent, zone, region or attribute:NAME", string(p))
}

// Spread keeps tasks of a group in as many places as there are: the next is offered where the fewest are, among the
// places that have room for it.
type Spread struct {
	By   Place
	Most int64 // never more in one place; 0 = as many as there is room for
}

// Check reports why s can't be wanted.
func (s Spread) Check() error {
	if s.Most < 0 {
		return fmt.Errorf("at most %d in a place; it must be at least 1, or 0 for no bound", s.Most)
	}
	return s.By.Check()
}
