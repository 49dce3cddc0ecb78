package visitors

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/trust/ticket"
)

// Guard decides who may ask an agent for what over HTTP.
type Guard struct {
	Visitors *Visitors
	Identify func(context.Context) trust.Identity               // returns who asks; nil: nobody is identified
	Plain    bool                                               // those who use plain text may ask too
	Holder   *trust.Holder                                      // the agent's certificate, by which it knows tickets; nil: it has none
	Agent    func(context.Context) (id api.AgentID, alive bool) // which agent it is now; not alive: it is stopping
	Denied   *atomic.Uint64                                     // counts the requests that were denied
}

// Hold guards a route by its row in the table of rights. Agents know of principals only who may look at the cluster: a
// route that requires another grant is opened by a ticket, with which the leader confirms that the one who shows it has
// the grant.
func (g Guard) Hold(call string, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		caller, identity := g.callerOf(r)
		r = r.WithContext(with(r.Context(), caller, call))
		ctx, leave, err := g.admit(call, r, caller, identity)
		if err != nil {
			g.Denied.Add(1)
			g.Visitors.NoteDenied(r, err)
			Answer(w, err)
			return
		}
		defer leave()
		serve(w, r.WithContext(ctx))
	}
}

// callerOf returns who makes a request.
func (g Guard) callerOf(r *http.Request) (rights.Caller, trust.Identity) {
	if g.Identify == nil {
		return rights.Caller{Kind: rights.Anybody}, trust.Identity{}
	}
	identity := g.Identify(r.Context())
	if g.Plain && identity.Kind == trust.Nobody {
		return rights.Caller{Kind: rights.Anybody}, identity
	}
	return rights.Caller{Kind: rights.Kind(identity.Kind.String()), Name: identity.Name}, identity
}

func (g Guard) admit(call string, r *http.Request, caller rights.Caller, who trust.Identity) (ctx context.Context, leave func(), err error) {
	row, known := rights.RowOf(call)
	if !known {
		row = rights.Row{Call: call}
	}
	knows := g.Visitors.standingOf(caller.Principal())
	if knows.revoked {
		caller.Revoked = "it was revoked"
	}
	if knows.views {
		caller.Grants = []rights.Grant{{Verb: rights.View}}
	}
	scope, denied := rights.Decide(row, caller)
	switch {
	case !knows.told && caller.Principal() != "" && (denied == nil && scope.Who != "" || row.Verb != rights.None):
		return nil, nil, api.E("agent.rights", api.Unavailable, caller.Principal(),
			errors.New("this agent has met no leader since it was started, and a leader tells it who may look and who was revoked")).RetryIn(retryUntold)
	case denied == nil:
		return r.Context(), func() {}, nil
	case row.Ticket == "" || knows.revoked:
		return nil, nil, denied
	}
	return g.admitByTicket(r, row.Ticket, who)
}

// retryUntold is when somebody is to come back to an agent that does not know yet who was revoked.
const retryUntold = 5 * time.Second

// admitByTicket admits a request that shows a ticket of the leader for what it asks for.
func (g Guard) admitByTicket(r *http.Request, opens rights.Ticket, who trust.Identity) (ctx context.Context, leave func(), err error) {
	if g.Holder == nil {
		return nil, nil, api.E("agent.ticket", api.Denied, "", errors.New("this agent has no certificate, so it knows no masters that sign tickets"))
	}
	wanted := ticket.Ticket{
		For: who, Opens: opens,
		Task: api.TaskRef{Framework: api.FrameworkID(r.PathValue("framework")), Task: api.TaskID(r.PathValue("task"))},
	}
	var alive bool
	if wanted.Agent, alive = g.Agent(r.Context()); !alive {
		return nil, nil, api.E("agent.ticket", api.Unavailable, "", errors.New("the agent is stopping"))
	}
	return g.Visitors.Enter(r, g.Holder.Pass(), wanted)
}
