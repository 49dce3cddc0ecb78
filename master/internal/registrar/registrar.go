// Package registrar signs the certificates of peers that join or renew, and manages the tokens by which they join.
//
// It decides by the registry as its master knows it, and counts uses there. A request with a wrong secret costs it one
// comparison. It knows nothing of connections: the context says who asks.
package registrar

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

// Config is what a registrar needs.
type Config struct {
	// Key is the cluster's key. Zero: the cluster runs without certificates, and every call is refused.
	Key trust.Key
	// Lives says how long the certificates are valid that it signs.
	Lives trust.Lives
	// Read reads the registry; the function must be short and keep nothing that may be replaced.
	Read func(read func(*registry.State))
	// Commit changes the registry, as the leader. It may be called twice for the same change.
	Commit func(ctx context.Context, op string, change registry.Change) error
	// Peers returns the members of the quorum with their Raft addresses.
	Peers func() map[api.MasterID]string
	// Signed is told of each certificate that is signed: for whom, and by which token ("": it was renewed).
	Signed func(identity trust.Identity, token string, ends time.Time)
}

// Registrar serves peers that join, and operators who manage tokens.
type Registrar struct {
	apiv1.UnimplementedTrustServiceServer
	config  Config
	present atomic.Pointer[trust.Authority] // nil: the cluster runs without certificates
	met     met
}

// New makes a registrar that signs by the authority in the key, until the registry names another one.
func New(config Config) (*Registrar, error) {
	r := &Registrar{config: config}
	if config.Key.IsZero() {
		return r, nil
	}
	authority, err := config.Key.Authority()
	if err == nil {
		r.present.Store(authority.Living(config.Lives))
	}
	return r, err
}

// Issue makes a pass for this master itself.
func (r *Registrar) Issue(id api.MasterID, now time.Time, hosts ...string) (*trust.Pass, error) {
	pass, err := r.present.Load().Issue(trust.Identity{Kind: trust.Master, Name: string(id)}, now, hosts...)
	if err == nil {
		r.Met(trust.Shown{Identity: pass.Identity(), Authority: pass.Authority(), Ends: pass.Ends()})
	}
	return pass, err
}

func (r *Registrar) check(op string) error {
	if r.present.Load() == nil {
		return api.E(op, api.Unsupported, "", errors.New("this cluster runs without certificates: its masters were started with no cluster key"))
	}
	return nil
}

// ready is check before something is signed, or said of the authority that signs: the one that the registry names.
func (r *Registrar) ready(op string) error {
	if err := r.check(op); err != nil {
		return err
	}
	_, err := r.Follow()
	return err
}

// Sign signs a certificate for a peer that joins by a token, or for one that shows the certificate that it renews.
func (r *Registrar) Sign(ctx context.Context, request *apiv1.SignRequest) (*apiv1.SignResponse, error) {
	const op = "trust.sign"
	if err := r.ready(op); err != nil {
		return nil, err
	}
	if request.GetTokenId() == "" {
		return r.renew(transport.CallerOf(ctx), request.GetRequest())
	}
	token, err := r.admit(request)
	if err != nil {
		return nil, err
	}
	if err := refuseOther(token, request.GetKinds()); err != nil {
		return nil, err
	}
	identity, err := r.joinerOf(token, request)
	if err != nil {
		return nil, err
	}
	if token.UsesMax > 0 {
		key, err := trust.RequestKey(request.GetRequest())
		if err != nil {
			return nil, err
		}
		if err := r.config.Commit(ctx, op, registry.UseToken{ID: token.ID, Key: key}); err != nil {
			return nil, err
		}
	}
	return r.answer(identity, token.ID, request.GetRequest())
}

// hostsMax bounds the hosts that one certificate names.
const hostsMax = 16

// SignHosts signs a certificate for the caller that names the hosts at which it serves.
func (r *Registrar) SignHosts(ctx context.Context, request *apiv1.SignHostsRequest) (*apiv1.SignResponse, error) {
	const op = "trust.hosts"
	if err := r.ready(op); err != nil {
		return nil, err
	}
	if n := len(request.GetHosts()); n == 0 || n > hostsMax {
		return nil, api.E(op, api.Invalid, "", fmt.Errorf("it names %d hosts; 1 to %d are right", n, hostsMax))
	}
	for _, host := range request.GetHosts() {
		if err := transport.CheckAdvertised(host); err != nil {
			return nil, api.E(op, api.Invalid, host, err)
		}
	}
	return r.renew(transport.CallerOf(ctx), request.GetRequest(), request.GetHosts()...)
}

// Known returns who logs in with an operator's token, and until when a certificate would be valid that is signed now.
// It changes nothing. It tells a caller with a wrong token no more than Sign does.
func (r *Registrar) Known(token trust.Token) (who trust.Identity, ends time.Time, err error) {
	const op = "trust.login"
	if err := r.ready(op); err != nil {
		return who, ends, err
	}
	known, err := r.admit(&apiv1.SignRequest{TokenId: token.ID, Secret: token.Secret})
	switch {
	case err != nil:
		return who, ends, err
	case known.Kind != registry.OperatorToken:
		return who, ends, api.E(op, api.Denied, token.ID, fmt.Errorf("the token is that of %s, and people log in with an operator's: tender token create operator", kindOf(known.Kind).WithArticle()))
	}
	authority, now := r.present.Load(), time.Now()
	if !authority.Anchors().Counts(token.Digest, now) {
		return who, ends, api.E(op, api.Denied, token.ID, errors.New("the token names an authority that counts no more; an operator gives another one: tender token create"))
	}
	who = trust.Identity{Cluster: r.config.Key.Cluster(), Kind: trust.Person, Name: known.Principal}
	if err := who.Check(); err != nil {
		return who, ends, api.E(op, api.Invalid, token.ID, err)
	}
	return who, authority.EndOf(trust.Person, now), r.refuseRevoked(who)
}

// LogIn is Known for a person who logs in. It also counts a use of the token, as the leader.
func (r *Registrar) LogIn(ctx context.Context, token trust.Token) (who trust.Identity, ends time.Time, err error) {
	if who, ends, err = r.Known(token); err != nil {
		return who, ends, err
	}
	return who, ends, r.config.Commit(ctx, "trust.login", registry.UseToken{ID: token.ID, Key: rand.Text()})
}

// joinerOf returns the identity of a peer that joins by a token. An agent that shows its ended certificate keeps its
// identity; every other peer is new, or is the principal that the token names.
func (r *Registrar) joinerOf(token registry.Token, request *apiv1.SignRequest) (trust.Identity, error) {
	const op = "trust.sign"
	if len(request.GetEnded()) > 0 {
		identity, err := r.present.Load().Recognise(request.GetEnded(), request.GetRequest(), time.Now())
		switch {
		case err != nil:
			return identity, err
		case identity.Kind != trust.Agent || token.Kind != registry.AgentToken:
			return identity, api.E(op, api.Invalid, identity.String(), errors.New("agents alone come back as who they were, by the token of an agent"))
		}
		return identity, r.refuseRevoked(identity)
	}
	identity := trust.Identity{Cluster: r.config.Key.Cluster(), Kind: kindOf(token.Kind), Name: cmp.Or(token.Principal, request.GetName())}
	if err := identity.Check(); err != nil {
		return identity, api.E(op, api.Invalid, "name", err)
	}
	return identity, r.refuseTaken(identity)
}

// refuseOther refuses a token of a kind that the caller can't be, before a use of the token is counted.
func refuseOther(token registry.Token, kinds []string) error {
	var can []trust.Kind
	for _, kind := range []trust.Kind{trust.Person, trust.Master, trust.Agent, trust.Framework} {
		if slices.Contains(kinds, kind.String()) {
			can = append(can, kind)
		}
	}
	if len(can) == 0 {
		return nil
	}
	return trust.RefuseKind(token.ID, kindOf(token.Kind), can[0].WithArticle(), can...)
}

// kindOf returns the kind of identity that a token gives.
func kindOf(kind registry.TokenKind) trust.Kind {
	switch kind {
	case registry.AgentToken:
		return trust.Agent
	case registry.MasterToken:
		return trust.Master
	case registry.FrameworkToken:
		return trust.Framework
	case registry.OperatorToken:
		return trust.Person
	}
	return trust.Nobody
}

// admit finds the token whose secret was shown. A caller who shows a wrong one is not told which part is wrong.
func (r *Registrar) admit(request *apiv1.SignRequest) (registry.Token, error) {
	const op = "trust.sign"
	var token registry.Token
	known := false
	r.config.Read(func(s *registry.State) { token, known = s.Tokens[request.GetTokenId()] })
	if !known && request.GetTokenId() == registry.FirstToken {
		return token, api.E(op, api.Unavailable, "", errors.New("the first operator's token is not there yet; it is made as soon as all masters know tokens"))
	}
	if !known || !trust.SecretFits(request.GetSecret(), token.Hash) {
		return token, api.E(op, api.Denied, "", errors.New("no such token lets anybody in; ask an operator for a new one: tender token create"))
	}
	if token.Kind.OfPrincipal() { // a principal's tokens are revoked with it; the caller is told that the principal was
		if err := r.refuseRevoked(trust.Identity{Kind: kindOf(token.Kind), Name: token.Principal}); err != nil {
			return token, err
		}
	}
	if why := token.Refusal(time.Now()); why != "" {
		return token, api.E(op, api.Denied, token.ID, fmt.Errorf("the token lets nobody in any more: %s", why))
	}
	return token, nil
}

// refuseTaken keeps a joiner from taking the name of another peer that is known.
func (r *Registrar) refuseTaken(identity trust.Identity) (err error) {
	if identity.Kind != trust.Agent {
		return r.refuseRevoked(identity)
	}
	r.config.Read(func(s *registry.State) {
		if id, taken := s.AgentOf(api.Nonce(identity.Name)); taken {
			err = api.E("trust.sign", api.Exists, identity.Name, fmt.Errorf("agent %s has this name already; join with an empty data folder, as a new one", id))
		}
	})
	return err
}

// refuseRevoked refuses a certificate to a peer whose own is no longer accepted.
func (r *Registrar) refuseRevoked(identity trust.Identity) (err error) {
	const op = "trust.sign"
	r.config.Read(func(s *registry.State) {
		switch identity.Kind {
		case trust.Framework, trust.Person:
			if principal := s.Principals[identity.Name]; !principal.Revoked.IsZero() {
				err = api.E(op, api.Denied, identity.Name, protocol.Revoked("the principal was revoked: "+principal.Why))
			}
		case trust.Agent:
			switch id, known := s.AgentOf(api.Nonce(identity.Name)); {
			case !known:
				err = api.E(op, api.Denied, identity.Name, errors.New("no agent is known by this certificate: it was removed, or has not come yet"))
			case s.Agents[id].Marks.Has(api.MarkGone):
				err = api.E(op, api.Denied, identity.Name, fmt.Errorf("agent %s was marked gone", id))
			}
		case trust.Nobody, trust.Master:
		}
	})
	return err
}

func (r *Registrar) renew(identity trust.Identity, request []byte, hosts ...string) (*apiv1.SignResponse, error) {
	if identity.Kind == trust.Nobody {
		return nil, api.E("trust.sign", api.Denied, "", errors.New("neither a token nor a certificate was shown"))
	}
	if err := r.refuseRevoked(identity); err != nil {
		return nil, err
	}
	return r.answer(identity, "", request, hosts...)
}

func (r *Registrar) answer(identity trust.Identity, token string, request []byte, hosts ...string) (*apiv1.SignResponse, error) {
	authority := r.present.Load()
	leaf, err := authority.SignRequest(request, identity, time.Now(), hosts...)
	if err != nil {
		return nil, err
	}
	r.config.Signed(identity, token, leaf.NotAfter)
	identity.Cluster = authority.Cluster()
	r.met.note(trust.Shown{Identity: identity, Authority: authority.Digest(), Ends: leaf.NotAfter}, time.Now(), time.Time{})
	answer := &apiv1.SignResponse{Certificate: leaf.Raw}
	for _, anchor := range authority.Anchors().List() {
		answer.Roots = append(answer.Roots, anchor.Raw)
	}
	if identity.Kind == trust.Master {
		key, err := r.Key()
		if err != nil {
			return nil, err
		}
		answer.ClusterKey = key.Marshal()
		peers := r.config.Peers()
		for _, id := range slices.Sorted(maps.Keys(peers)) {
			answer.Peers = append(answer.Peers, &apiv1.QuorumPeer{Id: string(id), RaftAddress: peers[id]})
		}
	}
	return answer, nil
}

// Founding reports whether the cluster is still being founded, as far as this master knows: the first operator has no
// token and no grant yet, so nobody else has.
func (r *Registrar) Founding() bool {
	known := false
	r.config.Read(func(s *registry.State) { _, known = s.Tokens[registry.FirstToken] })
	return r.present.Load() != nil && !known
}

// EnsureFirst makes the token of the first operator, once in the cluster's life, as soon as the registry can store
// tokens.
func (r *Registrar) EnsureFirst(ctx context.Context) error {
	if !r.Founding() {
		return nil
	}
	token, err := r.config.Key.FirstToken()
	if err != nil {
		return err
	}
	const op = "token.first"
	grant := registry.Grant{Principal: FirstPrincipal, Grant: rights.Grant{Verb: rights.Admin}}
	if err := r.config.Commit(ctx, op, grant); err != nil {
		return err
	}
	return r.config.Commit(ctx, op, registry.CreateToken{Token: registry.Token{
		ID: token.ID, Kind: registry.OperatorToken, Principal: FirstPrincipal, Hash: token.Hash(), By: "the founder of the cluster",
	}})
}

// FirstPrincipal is the principal of the first operator's token.
const FirstPrincipal = "admin"

// CreateToken makes a token for a caller with the given scope, which people know as who, and grants the token's
// principal what it needs.
func (r *Registrar) CreateToken(ctx context.Context, request *apiv1.CreateTokenRequest, by rights.Scope, who string) (*apiv1.CreateTokenResponse, error) {
	const op = "token.create"
	if err := r.ready(op); err != nil {
		return nil, err
	}
	token := trust.NewToken(r.present.Load().Digest())
	kept := registry.Token{
		ID: token.ID, Kind: registry.TokenKind(request.GetKind()), Principal: request.GetPrincipal(), Hash: token.Hash(),
		By: who, UsesMax: request.GetUses(),
	}
	if ttl := request.GetTtl(); ttl != nil {
		if ttl.CheckValid() != nil || ttl.AsDuration() <= 0 {
			return nil, api.E(op, api.Invalid, "ttl", fmt.Errorf("%v is no time for which somebody could join", ttl.AsDuration()))
		}
		kept.Expires = time.Now().Add(ttl.AsDuration()).UTC()
	}
	if len(request.GetRoles()) > 0 && kept.Kind != registry.FrameworkToken {
		return nil, api.E(op, api.Invalid, "roles", errors.New("only a framework is granted roles"))
	}
	var has []rights.Grant
	r.config.Read(func(s *registry.State) { has = s.Principals[kept.Principal].Grants })
	grants, err := grantsOf(op, request, has)
	if err != nil {
		return nil, err
	}
	if err := mayGive(op, kept.Kind, slices.Concat(has, grants), by); err != nil {
		return nil, err
	}
	if err := r.config.Commit(ctx, op, registry.CreateToken{Token: kept}); err != nil {
		return nil, err
	}
	for _, grant := range grants {
		if err := r.config.Commit(ctx, op, registry.Grant{Principal: kept.Principal, Grant: grant}); err != nil {
			return nil, errors.Join(err, r.config.Commit(ctx, op, registry.RevokeToken{ID: kept.ID}))
		}
	}
	return &apiv1.CreateTokenResponse{Id: token.ID, Token: token.String()}, nil
}

// mayGive refuses a token by which somebody would get more than its maker could grant. The argument grants is what the
// principal of the token has and is granted. A principal without grants may be granted anything later, and a master has
// the cluster's key, so these two need an unlimited admin. An agent may do nothing that grants are about.
func mayGive(op string, kind registry.TokenKind, grants []rights.Grant, by rights.Scope) *api.Error {
	switch {
	case kind == registry.AgentToken:
		return nil
	case kind == registry.MasterToken, len(grants) == 0:
		grants = []rights.Grant{{Verb: rights.Admin}}
	}
	for _, grant := range grants {
		if !by.MayGive(grant) {
			return api.E(op, api.Denied, by.Who, fmt.Errorf(
				"may not make this token: who joins by it gets as much as by '%s', and nobody gives more than he has; ask who may grant that", grant))
		}
	}
	return nil
}

// grantsOf returns the grants that a token's principal needs, so that the token is of use. The principal has some
// already, which are never extended by an operator's token.
func grantsOf(op string, request *apiv1.CreateTokenRequest, has []rights.Grant) ([]rights.Grant, error) {
	if len(request.GetMay()) > 0 {
		return exactly(op, request, has)
	}
	if registry.TokenKind(request.GetKind()) == registry.OperatorToken {
		if len(has) > 0 {
			return nil, nil
		}
		return []rights.Grant{{Verb: rights.Admin}}, nil
	}
	var grants []rights.Grant
	for _, role := range request.GetRoles() {
		grants = append(grants, rights.Grant{Verb: rights.Run, Role: api.Role(role)})
	}
	return grants, nil
}

// exactly returns the grants that the request names. It refuses them if the principal has others, because then it could
// do more than whoever asked for the token believes.
func exactly(op string, request *apiv1.CreateTokenRequest, has []rights.Grant) ([]rights.Grant, error) {
	switch registry.TokenKind(request.GetKind()) {
	case registry.FrameworkToken, registry.OperatorToken:
	default:
		return nil, api.E(op, api.Invalid, "may", errors.New("only a framework or an operator is granted anything"))
	}
	if len(request.GetRoles()) > 0 {
		return nil, api.E(op, api.Invalid, "roles", errors.New("say either in which roles the framework runs, or what it may do"))
	}
	var grants []rights.Grant
	for _, wish := range request.GetMay() {
		grant := wire.GrantFromProto(wish)
		if err := grant.Check(); err != nil {
			return nil, api.E(op, api.Invalid, "may", err)
		}
		grants = append(grants, grant)
	}
	for _, grant := range has {
		if !slices.Contains(grants, grant) {
			return nil, api.E(op, api.Exists, request.GetPrincipal(), fmt.Errorf(
				"it may already %s; take that back first (tender revoke %s %s), or name another principal", grant, request.GetPrincipal(), grant))
		}
	}
	return grants, nil
}

// ListTokens lists the tokens in the order of their IDs.
func (r *Registrar) ListTokens(context.Context, *apiv1.ListTokensRequest) (*apiv1.ListTokensResponse, error) {
	if err := r.check("token.list"); err != nil {
		return nil, err
	}
	var tokens map[string]registry.Token
	r.config.Read(func(s *registry.State) { tokens = maps.Clone(s.Tokens) })
	answer, now := &apiv1.ListTokensResponse{}, time.Now()
	for _, id := range slices.Sorted(maps.Keys(tokens)) {
		token := tokens[id]
		answer.Items = append(answer.Items, &apiv1.TokenView{
			Id: id, Kind: string(token.Kind), Principal: token.Principal, By: token.By, State: stateOf(token, now),
			Created: timestamppb.New(token.Created), Expires: wire.TimeToProto(token.Expires),
			Uses: uint64(len(token.Used)), UsesMax: token.UsesMax,
		})
	}
	return answer, nil
}

func stateOf(token registry.Token, now time.Time) string {
	switch {
	case !token.Revoked.IsZero():
		return "revoked"
	case token.Refusal(now) != "":
		return "expired"
	case token.UsesMax > 0 && uint64(len(token.Used)) >= token.UsesMax:
		return "used up"
	}
	return "valid"
}

// RevokeToken revokes a token, so that nobody can join by it any more.
func (r *Registrar) RevokeToken(ctx context.Context, request *apiv1.RevokeTokenRequest) (*apiv1.ActionResponse, error) {
	const op = "token.revoke"
	if err := r.check(op); err != nil {
		return nil, err
	}
	if err := r.config.Commit(ctx, op, registry.RevokeToken{ID: request.GetId()}); err != nil {
		return nil, err
	}
	return &apiv1.ActionResponse{Subject: request.GetId(), Message: "token " + request.GetId() + " is revoked; who has joined by it stays"}, nil
}
