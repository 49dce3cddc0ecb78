// Package visitors decides who may ask an agent for something over HTTP. Its Guard checks each route against its row of
// the table of rights. People get into tasks by tickets of the leader: the Guard lets a caller in whose ticket opens
// what the request is for. It ends what is open when the leader says that the caller's tickets are over, because the
// principal was revoked or something was taken from it.
//
// It remembers little: a caller's rights are in the ticket, and the end of tickets is forgotten once they are too old
// to open anything.
package visitors

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/ticket"
	"github.com/tenderhq/tender/internal/trust"
)

// Visitors are those of one agent. The zero value has none, and writes nothing down.
type Visitors struct {
	notes notes

	mu     sync.Mutex
	inside map[*visit]struct{}
	over   map[string]time.Time // principals, and until when their tickets that are over were signed
}

// visit is one request that a ticket has opened.
type visit struct {
	principal string
	signed    time.Time
	end       context.CancelCauseFunc
}

// Enter says whether the request shows a ticket that opens what is wanted; own is the agent's pass. The context ends with
// the visitor's welcome. Call leave when the request has been served.
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
	ctx, end := context.WithCancelCause(r.Context())
	one := &visit{read.For.Name, read.Signed, end}
	v.mu.Lock()
	defer v.mu.Unlock()
	if until, is := v.over[one.principal]; is && !one.signed.After(until) {
		end(nil)
		return nil, nil, overNow(one.principal)
	}
	if v.inside == nil {
		v.inside = map[*visit]struct{}{}
	}
	v.inside[one] = struct{}{}
	return ctx, func() {
		v.mu.Lock()
		delete(v.inside, one)
		v.mu.Unlock()
		end(nil)
	}, nil
}

// End shows a principal out whose tickets of until then are over.
func (v *Visitors) End(principal string, until time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over == nil {
		v.over = map[string]time.Time{}
	}
	for other, at := range v.over { // order: irrelevant because each is judged alone
		if time.Since(at) > ticket.Life+2*ticket.ClocksApart {
			delete(v.over, other)
		}
	}
	if until.After(v.over[principal]) {
		v.over[principal] = until
	}
	for one := range v.inside { // order: irrelevant because each is judged alone
		if one.principal == principal && !one.signed.After(until) {
			one.end(overNow(principal))
		}
	}
}

// overNow is what somebody is told who is shown out.
func overNow(principal string) *api.Error {
	return api.E("ticket", api.Denied, principal, errors.New("the leader has ended the tickets of this principal: it was revoked, or something was taken from it"))
}
