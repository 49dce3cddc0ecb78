package engine

import (
	"slices"

	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
)

const ports = "ports"

// carve takes the ask out of an offer of the agent. Ports of which only the number is asked follow those that were
// offered last: the lowest ones would be the same again for whoever gives them back because another program has them.
// (R64)
func carve(a *books.Agent, offer, ask api.Resources) (part api.Resources, fits bool) {
	if ask.Scalar(ports) == 0 {
		part, _, fits = offer.Carve(ask)
		return part, fits
	}
	items := slices.Clone(offer.Items())
	for i := range items {
		if items[i].Name == ports && a.NextPort > 0 {
			items[i].Ranges = items[i].Ranges.Minus(api.NewRanges(api.Range{End: a.NextPort - 1}))
		}
	}
	if part, _, fits = api.NewResources(items...).Carve(ask); !fits {
		part, _, fits = offer.Carve(ask)
	}
	return part, fits
}

// notePorts notes which ports were offered last.
func notePorts(a *books.Agent, offer api.Resources) {
	if offered := offer.RangesOf(ports); len(offered) > 0 {
		a.NextPort = offered[len(offered)-1].End + 1
	}
}
