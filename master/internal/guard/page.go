package guard

import (
	"context"

	"google.golang.org/grpc/metadata"

	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
)

// personKey is the metadata in which a master tells the leader for which person its page makes a call.
const personKey = "tender-page-person-bin"

// ForPerson returns the context of a call to the leader that the page makes for a person. (R72)
func ForPerson(ctx context.Context, who trust.Identity) context.Context {
	if who.Kind != trust.Person {
		return ctx
	}
	return metadata.NewOutgoingContext(ctx, metadata.Pairs(personKey, who.Name))
}

// forPerson returns the caller in whose name the page of another master makes a call. Masters alone are believed.
func (g *Guard) forPerson(ctx context.Context, caller rights.Caller, from trust.Identity) rights.Caller {
	names := metadata.ValueFromIncomingContext(ctx, personKey)
	if caller.Kind != rights.Master || len(names) != 1 {
		return caller
	}
	caller = g.known(trust.Identity{Cluster: from.Cluster, Kind: trust.Person, Name: names[0]})
	caller.Browser = true
	return caller
}
