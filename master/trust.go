package master

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/audit"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/trust/ticket"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/view"
)

// Trust says how a master and its peers prove who they are.
type Trust struct {
	// Key is the cluster's key, the same on all masters. Default: the one in the data folder. A master with a folder
	// has a key or is Insecure.
	Key trust.Key
	// Insecure lets a master run without a key: nothing is encrypted, and nobody's identity is checked. Kept. Refused
	// together with a key.
	Insecure bool
	// Plain lets a master in memory that has a key show no certificate and ask for none, because only its own process
	// can reach it. The key still seals and signs everything that it does otherwise.
	Plain bool
	// OpenHTTP serves HTTP unencrypted on loopback, even in a cluster with certificates. Everyone who connects there
	// acts as the first operator. It is for a cluster that one person runs on one machine.
	OpenHTTP bool
	// Through lists gRPC addresses of masters that this one asks to add it to the quorum, if it has never been in one.
	// Default: an operator does it with `tender raft add`.
	Through []string
	// Obtain gets the key for a folder that has none, or one that is no longer valid, and writes it there. It makes the
	// key of a new cluster, or asks another master for it, and then also returns the Peers. It is called only when this
	// master holds the folder and all ports, so that a start that finds a port taken leaves no key behind. The argument
	// id is the master's ID from the folder, or as configured. Default: the folder must hold the key.
	Obtain func(id api.MasterID) (trust.Key, []Peer, error)
	// Lives says how long the certificates are valid that this master signs. It must be the same on all masters.
	// Default: 30 days for an agent, 24 hours for all others.
	Lives trust.Lives
}

// trustService offers the registrar's services, while this master leads.
type trustService struct {
	apiv1.UnimplementedTrustServiceServer
	leading *leadership
	proof   *proof
}

// asLeader makes a call if this master leads, as a follower may not know the latest tokens and grants.
func asLeader[A any](d *leadership, op string, call func() (A, error)) (none A, err error) {
	if _, err := d.mine(op); err != nil {
		return none, err
	}
	return call()
}

func (s trustService) Sign(ctx context.Context, request *apiv1.SignRequest) (*apiv1.SignResponse, error) {
	return asLeader(s.leading, "trust.sign", func() (*apiv1.SignResponse, error) { return s.proof.registrar.Sign(ctx, request) })
}

// identityService gives out what proves who somebody is: tokens to join with, and tickets for agents.
type identityService struct {
	leading *leadership
	proof   *proof
}

func (s identityService) CreateToken(ctx context.Context, request *apiv1.CreateTokenRequest) (*apiv1.CreateTokenResponse, error) {
	if _, err := s.leading.mine("token.create"); err != nil { // a follower may not know the latest grants
		return nil, err
	}
	made, err := s.proof.registrar.CreateToken(ctx, request, guard.ScopeOf(ctx), guard.CallerOf(ctx).String())
	if err == nil {
		guard.About(ctx, audit.Token(made.GetId()))
	}
	return made, err
}

func (s identityService) ListTokens(ctx context.Context, request *apiv1.ListTokensRequest) (*apiv1.ListTokensResponse, error) {
	return asLeader(s.leading, "token.list", func() (*apiv1.ListTokensResponse, error) { return s.proof.registrar.ListTokens(ctx, request) })
}

func (s identityService) RevokeToken(ctx context.Context, request *apiv1.RevokeTokenRequest) (*apiv1.ActionResponse, error) {
	return s.proof.registrar.RevokeToken(ctx, request)
}

func (s identityService) GetAuthority(ctx context.Context, request *apiv1.GetAuthorityRequest) (*apiv1.AuthorityView, error) {
	return asLeader(s.leading, "authority.get", func() (*apiv1.AuthorityView, error) { return s.proof.registrar.GetAuthority(ctx, request) })
}

func (s identityService) RotateAuthority(ctx context.Context, request *apiv1.RotateAuthorityRequest) (*apiv1.AuthorityView, error) {
	return asLeader(s.leading, "authority.rotate", func() (*apiv1.AuthorityView, error) {
		return s.proof.registrar.RotateAuthority(ctx, request, guard.ScopeOf(ctx))
	})
}

func (s identityService) SignHosts(ctx context.Context, request *apiv1.SignHostsRequest) (*apiv1.SignResponse, error) {
	return asLeader(s.leading, "trust.hosts", func() (*apiv1.SignResponse, error) { return s.proof.registrar.SignHosts(ctx, request) })
}

// Tickets let whoever was granted it look into tasks at their agents, which do not know the grants.

func (s identityService) GetReadTicket(ctx context.Context, r *apiv1.TicketRequest) (*apiv1.Ticket, error) {
	return s.signTicket(ctx, rights.TicketToRead, r)
}

func (s identityService) GetExecTicket(ctx context.Context, r *apiv1.TicketRequest) (*apiv1.Ticket, error) {
	if r.GetTaskId() == "" && r.GetFrameworkId() != "" {
		return nil, api.E("ticket.exec", api.Invalid, r.GetFrameworkId(), errors.New("no task is named; a ticket to run commands is for one task"))
	}
	return s.signTicket(ctx, rights.TicketToExec, r)
}

// signTicket gives the caller a ticket, if the caller may have it.
func (s identityService) signTicket(ctx context.Context, opens rights.Ticket, r *apiv1.TicketRequest) (*apiv1.Ticket, error) {
	op := "ticket." + string(opens)
	t := ticket.Ticket{
		For: transport.CallerOf(ctx), Opens: opens, Agent: api.AgentID(r.GetAgentId()),
		Task: api.TaskRef{Framework: api.FrameworkID(r.GetFrameworkId()), Task: api.TaskID(r.GetTaskId())},
	}
	if guard.CallerOf(ctx).Browser && t.For.Kind == trust.Person {
		t.Person, t.For = t.For.Name, s.proof.holder.Pass().Identity() // a cookie is no certificate (R72, R86)
	}
	if err := checkTicketRequest(op, t); err != nil {
		return nil, err
	}
	var refused *api.Error
	err := s.leading.ask(ctx, op, func(c view.Cluster, _ time.Time) {
		found, known := c.Inside(t.Task, t.Agent)
		switch {
		case !known:
			refused = c.Absent(op, t.Task.String(), t.Agent, errors.New("the masters know no such task there (any more)"))
		case !c.Sees.Covers(found):
			refused = rights.Refuse(guard.RowOf(ctx), c.Sees.Who, found)
		}
		t.Agent = found.Agent
	})
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		return nil, refused
	case s.proof.holder == nil:
		return &apiv1.Ticket{}, nil
	}
	word, err := ticket.Sign(s.proof.holder.Pass(), t, time.Now())
	return &apiv1.Ticket{Ticket: word, Ttl: durationpb.New(ticket.Life)}, err
}

// checkTicketRequest says what is missing in a request.
func checkTicketRequest(op string, t ticket.Ticket) error {
	switch {
	case t.Task.Framework == "" && t.Task.Task != "":
		return api.E(op, api.Invalid, t.Task.Task, errors.New("the task's framework is not named"))
	case t.Task.Task == "" && t.Agent == "":
		return api.E(op, api.Invalid, t.Task.Framework, errors.New("neither a task nor an agent is named"))
	}
	return nil
}
