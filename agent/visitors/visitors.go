// Package visitors decides who may ask an agent for something over HTTP. Its Guard checks each route against its row of
// the table of rights. People get into tasks by tickets of the leader: the Guard lets a caller in whose ticket opens
// what the request is for. It ends what is open when the leader says that the caller's tickets are over, because the
// principal was revoked or something was taken from it. A revoked principal is let in nowhere.
//
// It remembers little: a caller's rights are in the ticket, beside that who may look at the cluster; the end of tickets is forgotten once they are too old to
// open anything, and a revoked principal once its last certificate has expired.
package visitors

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/trust/ticket"
)

// Visitors are the visitors of one agent. The zero value has none, and has no audit log.
type Visitors struct {
	notes notes

	mu      sync.Mutex
	inside  map[*visit]struct{}
	over    map[string]time.Time // by principal: until when the tickets were signed that are void
	revoked map[string]time.Time // when each principal was revoked whose certificates may still be valid
	viewers map[string]bool      // the principals that may look at the cluster, by the last leader's word
	told    bool                 // that leader has told of all principals
}

// visit is one request that was admitted by a ticket.
type visit struct {
	principal string
	signed    time.Time
	end       context.CancelCauseFunc
}

// Enter admits a request if it shows a ticket for what is wanted; own is the agent's pass. The context ends when the
// visitor's tickets become void. leave must be called when the request has been served.
func (v *Visitors) Enter(r *http.Request, own *trust.Pass, wanted ticket.Ticket) (ctx context.Context, leave func(), err error) {
	word, err := trust.TicketOf(r)
	if err != nil {
		return nil, nil, err
	}
	read, err := ticket.Read(own, word, time.Now())
	if err == nil {
		err = read.Check(wanted)
	}
	if err != nil {
		return nil, nil, err
	}
	if v.standingOf(read.Person).revoked {
		return nil, nil, overNow(read.Person)
	}
	ctx, end := context.WithCancelCause(r.Context())
	if read.Person != "" { // what is done is the person's, by the page of a master
		asked, _ := ctx.Value(askedKey{}).(asked)
		ctx = with(ctx, rights.Caller{Kind: rights.Person, Name: read.Person, Browser: true}, asked.call)
	}
	visitor := &visit{read.Principal(), read.Signed, end}
	v.mu.Lock()
	defer v.mu.Unlock()
	if until, is := v.over[visitor.principal]; is && !visitor.signed.After(until) {
		end(nil)
		return nil, nil, overNow(visitor.principal)
	}
	if v.inside == nil {
		v.inside = map[*visit]struct{}{}
	}
	v.inside[visitor] = struct{}{}
	return ctx, func() {
		v.mu.Lock()
		delete(v.inside, visitor)
		v.mu.Unlock()
		end(nil)
	}, nil
}

// End ends the visits of a principal whose tickets are void if they were signed no later than until.
func (v *Visitors) End(principal string, until time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = noteLatest(v.over, principal, until, ticket.Life+2*ticket.ClocksApart)
	v.endVisits(principal, until)
}

// Revoke ends all visits of a principal that was revoked at that time, and lets it in no more.
func (v *Visitors) Revoke(principal string, at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.revoked = noteLatest(v.revoked, principal, at, revokedFor)
	v.endVisits(principal, time.Now().Add(ticket.Life))
}

// BeginTelling forgets who may look at the cluster: a leader is about to tell of all principals.
func (v *Visitors) BeginTelling() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.viewers, v.told = nil, false
}

// LetView notes whether a principal may look at the cluster.
func (v *Visitors) LetView(principal string, may bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.viewers == nil {
		v.viewers = map[string]bool{}
	}
	if v.viewers[principal] = may; !may {
		delete(v.viewers, principal)
	}
}

// EndTelling notes that a leader has told of all principals. Until then a principal is let in only by a ticket, of which
// a leader has judged within minutes.
func (v *Visitors) EndTelling() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.told = true
}

// revokedFor is how long a revoked principal is remembered, by the clock that also judges whether its certificates have
// expired.
const revokedFor = rights.RevokedFor + ticket.ClocksApart

// standing is what an agent knows of a principal.
type standing struct {
	revoked, views bool
	told           bool // whether that is known at all
}

func (v *Visitors) standingOf(principal string) standing {
	v.mu.Lock()
	defer v.mu.Unlock()
	at, revoked := v.revoked[principal]
	return standing{revoked && time.Since(at) <= revokedFor, v.viewers[principal], v.told}
}

// noteLatest notes a time about a principal, unless a later one is known, and forgets times that are older than keep.
func noteLatest(times map[string]time.Time, principal string, at time.Time, keep time.Duration) map[string]time.Time {
	maps.DeleteFunc(times, func(_ string, at time.Time) bool { return time.Since(at) > keep })
	if times == nil {
		times = map[string]time.Time{}
	}
	if at.After(times[principal]) {
		times[principal] = at
	}
	return times
}

// endVisits ends the visits of a principal by tickets that were signed no later than until. The caller holds the lock.
func (v *Visitors) endVisits(principal string, until time.Time) {
	for visitor := range v.inside { // order: irrelevant because each is judged alone
		if visitor.principal == principal && !visitor.signed.After(until) {
			visitor.end(overNow(principal))
		}
	}
}

// overNow is the error for a visitor whose tickets have become void.
func overNow(principal string) *api.Error {
	return api.E("ticket", api.Denied, principal, errors.New("the leader has ended the tickets of this principal: it was revoked, or something was taken from it"))
}
