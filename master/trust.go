package master

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/lookout"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/audit"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/trust/ticket"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/registrar"
	"github.com/tenderhq/tender/master/registry"
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

// proof holds what this master needs to prove its identity and to sign certificates.
type proof struct {
	holder    *trust.Holder // nil: the cluster runs without certificates
	registrar *registrar.Registrar
}

func (m *Master) newProof() (proof, error) {
	key := m.config.Trust.Key
	r, err := registrar.New(registrar.Config{
		Key:    key,
		Lives:  m.config.Trust.Lives,
		Read:   func(look func(*registry.State)) { m.raft.Read(look) },
		Commit: m.commit,
		Peers: func() map[api.MasterID]string {
			peers := map[api.MasterID]string{}
			for _, member := range m.raft.Members.Status().Members {
				peers[member.ID] = member.Addr
			}
			return peers
		},
		Signed: func(identity trust.Identity, token string, ends time.Time) {
			m.log.Info().Stringer("identity", identity).Str("token", token).Time("ends", ends).Msg("certificate signed")
		},
	})
	if err != nil || key.IsZero() || m.config.Trust.Plain {
		return proof{registrar: r}, err
	}
	return proof{holder: trust.NewHolder(nil), registrar: r}, nil
}

// renewOwn gives this master a new certificate, which it signs itself.
func (m *Master) renewOwn() error {
	if m.listeners.proof.holder == nil {
		return nil
	}
	bound, _, err := net.SplitHostPort(m.listeners.grpc.Addr().String())
	if err != nil {
		bound = ""
	}
	pass, err := m.listeners.proof.registrar.Issue(m.config.ID, time.Now(),
		m.config.Advertise, bound, hostOf(m.config.HTTP), "localhost", "127.0.0.1", "::1")
	if err != nil {
		return err
	}
	m.listeners.proof.holder.Replace(pass)
	return nil
}

// keepIdentity renews this master's certificate in time, and also when the registry names a new certificate authority.
// Then the new key is in the folder before others see the new certificate.
func (m *Master) keepIdentity(ctx context.Context) error {
	if m.listeners.proof.holder == nil {
		return nil
	}
	for ctx.Err() == nil {
		news := m.rights.wait()
		if err := m.followAuthority(); err != nil {
			return err
		}
		due := time.NewTimer(max(time.Until(m.listeners.proof.holder.Pass().RenewAt()), pause.Soonest))
		select {
		case <-news:
		case <-due.C:
			if err := m.renewOwn(); err != nil {
				return err
			}
		case <-ctx.Done():
		}
		due.Stop()
	}
	return nil
}

// followAuthority switches to the certificate authority that the registry names, if that is a new one.
func (m *Master) followAuthority() error {
	proof := m.listeners.proof
	if _, err := proof.registrar.Follow(); err != nil {
		return err
	}
	key, err := proof.registrar.Key()
	if err != nil {
		return err
	}
	authority, err := key.Authority()
	if err != nil || authority.Digest() == proof.holder.Pass().Authority() {
		return err
	}
	if m.config.DataDir != "" {
		if err := trust.RewriteKey(m.config.DataDir, key); err != nil {
			return err
		}
	}
	m.log.Info().Stringer("authority", authority.Digest()).Time("former_ends", authority.Anchors().FormerEnds()).
		Msg("another authority signs the certificates of the cluster")
	return m.renewOwn()
}

// credentials returns the options by which gRPC accepts callers that have a certificate, or a token to get one.
func (m *Master) credentials() []grpc.ServerOption {
	if m.listeners.proof.holder == nil {
		return nil
	}
	door := trust.Door{Joiners: true, Tickets: m.config.Trust.Key, Seen: m.listeners.proof.registrar.Met, Ended: m.sayEnded(), Leads: m.leads}
	return []grpc.ServerOption{grpc.Creds(transport.ServerCredentials(m.listeners.proof.holder, door)), grpc.InTapHandle(onlyMembers)}
}

const (
	// endedSaidEvery is how often the log names the same caller whose certificate is no longer valid, because such a
	// caller tries again and again.
	endedSaidEvery = time.Hour
	// endedSaidMax bounds the callers that are remembered for that. When there are more, all are forgotten and logged
	// anew.
	endedSaidMax = 10_000
)

// sayEnded returns a function that logs who came with a certificate that is no longer valid, and what remedies that.
func (m *Master) sayEnded() func(*trust.EndedError) {
	var mu sync.Mutex
	said := map[trust.Identity]time.Time{} // guarded by mu
	isNews := func(identity trust.Identity, now time.Time) bool {
		mu.Lock()
		defer mu.Unlock()
		if now.Sub(said[identity]) < endedSaidEvery {
			return false
		}
		if len(said) >= endedSaidMax {
			clear(said)
		}
		said[identity] = now
		return true
	}
	return func(ended *trust.EndedError) {
		if !isNews(ended.Identity, time.Now()) {
			return
		}
		m.log.Warn().Stringer("identity", ended.Identity).AnErr("why", ended).Str("remedy", ended.Remedy()).Msg("refused a connection: its certificate is no longer valid")
	}
}

// onlyMembers lets a caller without a certificate ask for one and nothing else. It decides before anything of the call
// is read.
func onlyMembers(ctx context.Context, call *tap.Info) (context.Context, error) {
	if _, known := peer.FromContext(ctx); !known || call.FullMethodName == apiv1.TrustService_Sign_FullMethodName ||
		transport.CallerOf(ctx).Kind != trust.Nobody {
		return ctx, nil
	}
	return nil, status.Error(codes.Unauthenticated, "who has only a token may ask for a certificate and nothing else")
}

// known serves HTTP requests that name this master as their host, and tells the handlers who the caller is.
func (m *Master) known(handler http.Handler) http.Handler {
	told := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(m.whoAsks(r.Context())))
	})
	return trust.KnownHosts(told, m.config.Advertise, hostOf(m.config.GRPC), hostOf(m.config.HTTP))
}

// whoAsks returns the context of an HTTP request with the identity of its caller. Where HTTP is open, whoever shows no
// certificate is the first principal.
func (m *Master) whoAsks(ctx context.Context) context.Context {
	known := trust.FromConn(ctx)
	if m.config.Trust.OpenHTTP && m.listeners.proof.holder != nil && trust.Of(known) == (trust.Identity{}) {
		return trust.With(ctx, trust.Identity{Cluster: m.config.Trust.Key.Cluster(), Kind: trust.Person, Name: registrar.FirstPrincipal})
	}
	return known
}

// httpListener returns the HTTP listener. It asks for certificates; where HTTP is open, plain text is understood too.
func (m *Master) httpListener() net.Listener {
	return m.listeners.proof.holder.Listener(m.listeners.http, trust.Door{Strangers: true, Plain: m.config.Trust.OpenHTTP})
}

// access returns how the guard learns who calls: by certificates, unless the config says otherwise.
func (m *Master) access() Access {
	access := m.config.Access
	if m.listeners.proof.holder != nil && access.Identify == nil {
		access.Identify, access.Domain = transport.CallerOf, m.config.Trust.Key.Cluster()
	}
	return access
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return host
}

// errFounding is told to a principal for whom it is too early.
var errFounding = errors.New("the cluster is being founded, and nobody has been granted anything yet; try again")

// foundingRetry is when a principal is to come again while the cluster is being founded.
const foundingRetry = 100 * time.Millisecond

// denied returns the error for a principal that may not make a call, as far as this master knows. A follower may not
// know the latest grants, so it sends the principal to the leader. A leader that has not finished founding the cluster
// knows of no grants; its refusal is not final. (R66)
func (m *Master) denied(ctx context.Context, call string, err error) error {
	switch {
	case !api.Is(err, api.Denied) || !isPrincipal(ctx):
		return err
	case m.leading.Load() == nil:
		return m.notLeader(call)
	case m.isTooEarly(ctx, err):
		return m.tooEarly(call)
	}
	return err
}

// isTooEarly reports whether a principal was denied something only because the cluster is still being founded.
func (m *Master) isTooEarly(ctx context.Context, err error) bool {
	return api.Is(err, api.Denied) && isPrincipal(ctx) && m.listeners.proof.registrar.Founding()
}

// tooEarly is the error for a call for which it is too early.
func (m *Master) tooEarly(call string) error {
	return api.E(call, api.Unavailable, m.config.ID, errFounding).RetryIn(foundingRetry)
}

// isPrincipal reports whether the caller is one to whom something can be granted.
func isPrincipal(ctx context.Context) bool {
	kind := transport.CallerOf(ctx).Kind
	return kind == trust.Framework || kind == trust.Person
}

// commit makes a change of the registry, if this master leads.
func (m *Master) commit(ctx context.Context, op string, change registry.Change) error {
	l := m.leading.Load()
	if l == nil {
		return m.notLeader(op)
	}
	err := l.commit(ctx, op, change)
	if api.Is(err, api.NotLeader) {
		return m.notLeader(op)
	}
	return err
}

// trustService offers the registrar's services, while this master leads.
type trustService struct {
	apiv1.UnimplementedTrustServiceServer
	master *Master
}

func (s trustService) Sign(ctx context.Context, request *apiv1.SignRequest) (*apiv1.SignResponse, error) {
	if s.master.leading.Load() == nil {
		return nil, s.master.notLeader("trust.sign")
	}
	return s.master.listeners.proof.registrar.Sign(ctx, request)
}

func (s operatorService) CreateToken(ctx context.Context, request *apiv1.CreateTokenRequest) (*apiv1.CreateTokenResponse, error) {
	if s.master.leading.Load() == nil { // a follower may not know the latest grants
		return nil, s.master.notLeader("token.create")
	}
	made, err := s.master.listeners.proof.registrar.CreateToken(ctx, request, guard.ScopeOf(ctx), guard.CallerOf(ctx).String())
	if err == nil {
		guard.About(ctx, audit.Token(made.GetId()))
	}
	return made, err
}

func (s operatorService) ListTokens(ctx context.Context, request *apiv1.ListTokensRequest) (*apiv1.ListTokensResponse, error) {
	if s.master.leading.Load() == nil {
		return nil, s.master.notLeader("token.list")
	}
	return s.master.listeners.proof.registrar.ListTokens(ctx, request)
}

func (s operatorService) RevokeToken(ctx context.Context, request *apiv1.RevokeTokenRequest) (*apiv1.ActionResponse, error) {
	return s.master.listeners.proof.registrar.RevokeToken(ctx, request)
}

func (s operatorService) GetAuthority(ctx context.Context, request *apiv1.GetAuthorityRequest) (*apiv1.AuthorityView, error) {
	if s.master.leading.Load() == nil {
		return nil, s.master.notLeader("authority.get")
	}
	return s.master.listeners.proof.registrar.GetAuthority(ctx, request)
}

func (s operatorService) RotateAuthority(ctx context.Context, request *apiv1.RotateAuthorityRequest) (*apiv1.AuthorityView, error) {
	if s.master.leading.Load() == nil {
		return nil, s.master.notLeader("authority.rotate")
	}
	return s.master.listeners.proof.registrar.RotateAuthority(ctx, request, guard.ScopeOf(ctx))
}

// logIn returns the identity of whoever logs in with a browser and this token. The leader counts the token's uses; a
// wrong token is refused without asking the leader.
func (m *Master) logIn(ctx context.Context, token trust.Token) (who trust.Identity, ends time.Time, err error) {
	registrar := m.listeners.proof.registrar
	if m.leading.Load() != nil {
		return registrar.LogIn(ctx, token)
	}
	if who, ends, err = registrar.Known(token); err != nil {
		return who, ends, err
	}
	return who, ends, m.useAtLeader(ctx, token)
}

// useAtLeader has the leader check a token and count a use of it, in the same way as for a peer that joins. The
// certificate that this gives is for a key that nobody keeps.
func (m *Master) useAtLeader(ctx context.Context, token trust.Token) error {
	_, address := m.Leader()
	if address == "" {
		return m.notLeader("trust.login")
	}
	request, err := trust.NewPass().Request()
	if err != nil {
		return err
	}
	return m.callMaster(ctx, address, announceTimeout, func(ctx context.Context, conn *grpc.ClientConn) error {
		if _, err := apiv1.NewTrustServiceClient(conn).Sign(ctx, &apiv1.SignRequest{Request: request, TokenId: token.ID, Secret: token.Secret}); err != nil {
			return wire.Error(err)
		}
		return nil
	})
}

// joinQuorum asks masters of the quorum to add this one, if it has never been in a quorum.
func (m *Master) joinQuorum(ctx context.Context) {
	through := m.config.Trust.Through
	if len(through) == 0 || len(m.raft.Members.Status().Members) > 0 {
		return
	}
	seeker := lookout.NewSeeker(through)
	for ctx.Err() == nil && !m.isMember() {
		address := seeker.Address()
		err := m.askToBeAdded(ctx, address)
		if err == nil {
			return
		}
		if seeker.WorthSaying(err) && ctx.Err() == nil {
			m.log.Info().Str("asked", address).AnErr("why", err).Msg("not a member of the quorum yet; asking again")
		}
		pause.For(ctx, seeker.Failed(err))
	}
}

// isMember reports whether this master is a voting member of the quorum, as far as it knows.
func (m *Master) isMember() bool {
	for _, member := range m.raft.Members.Status().Members {
		if member.ID == m.config.ID && member.Role != "non-voter" {
			return true
		}
	}
	return false
}

// addedMax bounds one such request. The leader answers it when this master has caught up.
const addedMax = 30 * time.Second

func (m *Master) askToBeAdded(ctx context.Context, address string) error {
	if m.raft.Cluster() == "" {
		return api.E("master.join", api.Unavailable, m.config.ID, errors.New("it has yet to hear from a master of the quorum"))
	}
	return m.callMaster(ctx, address, addedMax, func(ctx context.Context, conn *grpc.ClientConn) error {
		if _, err := apiv1.NewRaftServiceClient(conn).AddPeer(ctx, &apiv1.AddPeerRequest{Id: string(m.config.ID), RaftAddress: m.RaftAddr()}); err != nil {
			return wire.Error(err)
		}
		return nil
	})
}

// Tickets let whoever was granted it look into tasks at their agents, which do not know the grants.

func (s operatorService) GetReadTicket(ctx context.Context, r *apiv1.TicketRequest) (*apiv1.Ticket, error) {
	return s.master.signTicket(ctx, rights.TicketToRead, r)
}

func (s operatorService) GetExecTicket(ctx context.Context, r *apiv1.TicketRequest) (*apiv1.Ticket, error) {
	if r.GetTaskId() == "" && r.GetFrameworkId() != "" {
		return nil, api.E("ticket.exec", api.Invalid, r.GetFrameworkId(), errors.New("no task is named; a ticket to run commands is for one task"))
	}
	return s.master.signTicket(ctx, rights.TicketToExec, r)
}

// signTicket gives the caller a ticket, if the caller may have it.
func (m *Master) signTicket(ctx context.Context, opens rights.Ticket, r *apiv1.TicketRequest) (*apiv1.Ticket, error) {
	op := "ticket." + string(opens)
	t := ticket.Ticket{
		For: transport.CallerOf(ctx), Opens: opens, Agent: api.AgentID(r.GetAgentId()),
		Task: api.TaskRef{Framework: api.FrameworkID(r.GetFrameworkId()), Task: api.TaskID(r.GetTaskId())},
	}
	if guard.CallerOf(ctx).Browser && t.For.Kind == trust.Person {
		t.Person, t.For = t.For.Name, m.listeners.proof.holder.Pass().Identity() // a cookie is no certificate (R72, R86)
	}
	if err := checkTicketRequest(op, t); err != nil {
		return nil, err
	}
	var refused *api.Error
	err := m.ask(ctx, op, func(c view.Cluster, _ time.Time) {
		found, known := c.Inside(t.Task, t.Agent)
		switch {
		case !known:
			refused = api.E(op, api.NotFound, t.Task.String(), errors.New("the masters know no such task there (any more)"))
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
	case m.listeners.proof.holder == nil:
		return &apiv1.Ticket{}, nil
	}
	word, err := ticket.Sign(m.listeners.proof.holder.Pass(), t, time.Now())
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
