package trust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
)

const (
	// memberName, joinName and leaderName are what a client calls the server that it wants: one for members of the cluster,
	// one for those who have only a token, one for members who want it only if it leads. They are no names of hosts.
	memberName = "member.tender"
	joinName   = "join.tender"
	leaderName = "leader.tender"
	// ticketsEvery is how often the key of the tickets changes by which sessions are taken up again.
	ticketsEvery = 12 * time.Hour
)

// againExchanges are the key exchanges of a connection that takes up a session. Its keys are made from that session's secret
// too (RFC 8446, section 7.1), so that it keeps what the hybrid exchange of the first connection promises against who records
// it for a quantum computer; the exchange beside it, for forward secrecy, may be the cheapest. A server that refuses to take the
// session up, which none of the cluster does while it has its keys, gets a new one with this exchange alone.
var againExchanges = []tls.CurveID{tls.CurveP256}

// Dial opens a connection.
type Dial = func(ctx context.Context, address string) (net.Conn, error)

// Holder shows a pass, and checks those of others. The pass may be replaced at any time; connections go on. A nil holder
// is of a cluster without certificates: it shows nothing and checks nothing.
type Holder struct {
	shown atomic.Pointer[showing]
}

// showing is a pass with the sessions that were begun by it. Who takes up one of them is known by what was shown when it began:
// with another pass one begins anew, so that nobody is known by a certificate that has ended, or of a former authority.
type showing struct {
	pass     *Pass
	sessions tls.ClientSessionCache
}

// NewHolder shows a signed pass.
func NewHolder(p *Pass) *Holder {
	h := &Holder{}
	h.Replace(p)
	return h
}

// Pass is the present one.
func (h *Holder) Pass() *Pass { return h.shown.Load().pass }

// Replace shows another pass from now on.
func (h *Holder) Replace(p *Pass) {
	h.shown.Store(&showing{p, new(latestSession)})
}

// latestSession is the session of TLS that a client takes up again without another proof, whatever it calls the server.
type latestSession struct {
	kept atomic.Pointer[keptSession]
}

type keptSession struct {
	state *tls.ClientSessionState
	since time.Time
}

// Get is the latest one, unless it may be too old for the masters' keys of tickets.
func (l *latestSession) Get(string) (*tls.ClientSessionState, bool) {
	kept := l.kept.Load()
	if kept == nil || time.Since(kept.since) >= ticketsEvery {
		return nil, false
	}
	return kept.state, true
}

// Put keeps one; nil: the one before is of no use any more.
func (l *latestSession) Put(_ string, state *tls.ClientSessionState) {
	if state == nil {
		l.kept.Store(nil)
		return
	}
	l.kept.Store(&keptSession{state, time.Now()})
}

// Dialer opens connections on which both sides have proved who they are, and whose other side is of one of these kinds.
func (h *Holder) Dialer(dial Dial, kinds ...Kind) Dial {
	return h.dialerFor(memberName, dial, kinds)
}

// dialerFor is Dialer, for a server that is wanted by such a name.
func (h *Holder) dialerFor(name string, dial Dial, kinds []Kind) Dial {
	if h == nil {
		return plainDialer(dial)
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		return handshake(ctx, address, tls.Client(conn, h.client(name, kinds)))
	}
}

// LeaderDialer opens connections to a master as Dialer does, but only if it leads: one that does not refuses at the first word,
// before either side has begun to prove anything, which is nearly all of what a connection costs. Refused hears of that, before
// the error is returned. It is no proof, for anybody on the way can do the same; so one who was refused everywhere asks without
// this condition. Without certificates there is no such word, and no condition.
func (h *Holder) LeaderDialer(dial Dial, refused func()) Dial {
	dial = h.dialerFor(leaderName, dial, []Kind{Master})
	return func(ctx context.Context, address string) (net.Conn, error) {
		secure, err := dial(ctx, address)
		if alert := (*net.OpError)(nil); errors.As(err, &alert) && alert.Op == alertOp {
			refused()
		}
		return secure, err
	}
}

// alertOp is what crypto/tls calls an alert of the other side.
const alertOp = "remote error"

// errNotLeading is why a door that is asked for the leader opens to nobody.
var errNotLeading = errors.New("it does not lead")

// handshake ends what does not prove who it is.
func handshake(ctx context.Context, address string, conn *tls.Conn) (net.Conn, error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = conn.NetConn().Close()
		if header := (tls.RecordHeaderError{}); errors.As(err, &header) {
			err = errors.New("what listens there speaks no TLS; if the cluster runs with --insecure, come without token and context")
		}
		kind := api.Unavailable
		if api.Is(err, api.Denied) { // by us: who listens there is not whom we look for
			kind = api.Denied
		}
		return nil, api.E("trust.handshake", kind, address, err)
	}
	return newSecured(conn), nil
}

func (h *Holder) client(name string, kinds []Kind) *tls.Config {
	now := h.shown.Load()
	var exchanges []tls.CurveID // none: those of Go, a hybrid one first
	if _, again := now.sessions.Get(name); again {
		exchanges = againExchanges
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: name, NextProtos: []string{"h2", "http/1.1"}, CurvePreferences: exchanges,
		// The other side is no host but an identity, which VerifyConnection checks.
		InsecureSkipVerify: true, //nolint:gosec // see above
		ClientSessionCache: now.sessions,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &now.pass.shown, nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			_, err := h.check(state, kinds)
			return err
		},
	}
}

// Shown is what somebody has shown on a connection.
type Shown struct {
	Identity  Identity
	Authority Digest // that has signed it
	Ends      time.Time
}

// check refuses who is not of this cluster, or of none of these kinds; none: any will do.
func (h *Holder) check(state tls.ConnectionState, kinds []Kind) (Shown, error) {
	pass, now := h.Pass(), time.Now()
	identity, authority, known := Identity{}, Digest{}, false
	if state.DidResume {
		identity, authority, known = pass.verifyAgain(state.PeerCertificates, now)
	}
	if !known {
		var err error
		if identity, authority, err = pass.verifyChain(state.PeerCertificates, now); err != nil {
			return Shown{}, pass.hasEnded(state.PeerCertificates, err)
		}
	}
	if len(kinds) > 0 && !slices.Contains(kinds, identity.Kind) {
		return Shown{}, api.E("trust.verify", api.Denied, identity.String(), fmt.Errorf("it is no %s", kinds[0]))
	}
	return Shown{identity, authority, state.PeerCertificates[0].NotAfter}, nil
}

// Look says what a master shows now, by a handshake of its own: one that takes up a session of before shows nothing new.
func (h *Holder) Look(ctx context.Context, dial Dial, address string) (Shown, error) {
	conn, err := dial(ctx, address)
	if err != nil {
		return Shown{}, err
	}
	var shown Shown
	config := h.client(memberName, []Kind{Master})
	config.ClientSessionCache = nil
	config.VerifyConnection = func(state tls.ConnectionState) error {
		shown, err = h.check(state, []Kind{Master})
		return err
	}
	secure, err := handshake(ctx, address, tls.Client(conn, config))
	if err != nil {
		return Shown{}, err
	}
	_ = secure.Close() // it has been of use
	return shown, nil
}

// Door says who may come in at a listener.
type Door struct {
	// Kinds may come in; none: all of the cluster.
	Kinds []Kind
	// Strangers come in without a certificate, as [Nobody]: what they may is decided behind the door.
	Strangers bool
	// Joiners come in without one if they say that they have only a token, as [Nobody].
	Joiners bool
	// Browsers come in, as [Nobody], and are not asked for a certificate.
	Browsers bool
	// Leads, if set, is asked when somebody wants the leader alone, before anything is computed or kept for it, and may wait
	// until it knows. False: who wants it is refused. Who asks has not said yet who it is.
	Leads func(context.Context) bool
	// Tickets, if set, is the key from which those of sessions are made, so that whoever has the same key takes up a
	// session of another one.
	Tickets Key
	// Protocols that are spoken behind it and that clients may ask for. Default: not said.
	Protocols []string
	// Seen, if set, hears of who came in, at each handshake.
	Seen func(Shown)
	// Ended, if set, hears of who was a member of the cluster and came with a certificate that counts no more.
	Ended func(*EndedError)
	// Anew lets nobody take up a session of before: each connection proves anew who it is.
	Anew bool
	// Plain lets in, as [Nobody], who speaks no TLS at a listener: for one that only this machine reaches.
	Plain bool
}

// Server is TLS 1.3 for a listener.
func (h *Holder) Server(door Door) *tls.Config {
	member := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: door.Protocols, ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: door.Anew,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &h.Pass().shown, nil },
		VerifyConnection: func(state tls.ConnectionState) error {
			if (door.Strangers || door.Browsers) && len(state.PeerCertificates) == 0 {
				return nil
			}
			shown, err := h.check(state, door.Kinds)
			if err == nil && door.Seen != nil {
				door.Seen(shown)
			}
			if ended := (*EndedError)(nil); door.Ended != nil && errors.As(err, &ended) {
				door.Ended(ended)
			}
			return err
		},
	}
	if door.Strangers {
		member.ClientAuth = tls.RequestClientCert
	}
	if door.Browsers {
		member.ClientAuth = tls.NoClientCert
	}
	joiner := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: door.Protocols, SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return h.Pass().withRoots(), nil },
	}
	tickets := newTicketKeys(door.Tickets, member)
	member.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if door.Joiners && hello.ServerName == joinName {
			return joiner, nil
		}
		if door.Leads != nil && hello.ServerName == leaderName && !door.Leads(hello.Context()) {
			return nil, errNotLeading
		}
		tickets.change(time.Now())
		return nil, nil
	}
	return member
}

// withRoots shows all anchors too: joiners know one of them by its digest.
func (p *Pass) withRoots() *tls.Certificate {
	all := p.shown
	all.Certificate = [][]byte{p.leaf.Raw}
	for _, anchor := range p.anchors.List() {
		all.Certificate = append(all.Certificate, anchor.Raw)
	}
	return &all
}

// ticketKeys changes the keys of tickets, which all who have the cluster's key make alike.
type ticketKeys struct {
	from   Key
	config *tls.Config
	turn   atomic.Int64
}

func newTicketKeys(from Key, config *tls.Config) *ticketKeys {
	return &ticketKeys{from: from, config: config}
}

// change sets the keys of this turn and of the one before.
func (t *ticketKeys) change(now time.Time) {
	turn := now.Unix() / int64(ticketsEvery/time.Second)
	if t.from.IsZero() || t.turn.Swap(turn) == turn {
		return
	}
	var keys [][32]byte
	for _, one := range []int64{turn, turn - 1} {
		keys = append(keys, [32]byte(t.from.Derive(fmt.Sprint("session tickets ", one))))
	}
	t.config.SetSessionTicketKeys(keys)
}

// JoinDialer opens connections to masters of the cluster whose authority has the digest, for who has nothing but a token.
func JoinDialer(dial Dial, digest Digest) Dial {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: joinName, NextProtos: []string{"h2"},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection knows the authority by its digest
		VerifyConnection:   func(state tls.ConnectionState) error { return checkDigest(state.PeerCertificates, digest) },
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		return handshake(ctx, address, tls.Client(conn, config))
	}
}

// checkDigest refuses who is no master of the authority that has the digest. The name of the cluster the master says itself:
// the authority that has the digest signs for no other one.
func checkDigest(shown []*x509.Certificate, digest Digest) error {
	const op = "trust.join"
	for _, known := range shown[:min(len(shown), shownMax)] {
		if DigestOf(known) != digest || !known.IsCA {
			continue
		}
		if now := time.Now(); now.After(known.NotAfter) {
			continue // of a former authority, or of another way to this one
		}
		judge := &Pass{anchors: Anchors{Root: known}, pool: poolOf(known)}
		if leaf, err := FromURI(onlyURI(shown[0])); err == nil {
			judge.identity.Cluster = leaf.Cluster
		}
		identity, err := judge.verify(shown, time.Now())
		if err == nil && identity.Kind != Master {
			err = api.E(op, api.Denied, identity.String(), errors.New("it is no master"))
		}
		return err
	}
	return api.E(op, api.Denied, "", errors.New("the token is not of the cluster whose masters listen there, or of an authority that counts no more; an operator gives another one: tender token create"))
}

// onlyURI is the name that a certificate bears; an empty one if it has none, or several.
func onlyURI(certificate *x509.Certificate) *url.URL {
	if len(certificate.URIs) != 1 {
		return &url.URL{}
	}
	return certificate.URIs[0]
}

// PeerOf is who is at the other end of a connection, once its handshake is done; [Nobody] of one without certificates.
func PeerOf(conn net.Conn) Identity {
	leaf := shownOn(conn)
	if leaf == nil || len(leaf.URIs) != 1 {
		return Identity{}
	}
	identity, err := FromURI(leaf.URIs[0])
	if err != nil {
		return Identity{}
	}
	return identity
}

// SignedAt is when the certificate was signed that the other end of a connection has shown; zero of one without.
func SignedAt(conn net.Conn) time.Time {
	leaf := shownOn(conn)
	if leaf == nil {
		return time.Time{}
	}
	return leaf.NotBefore.Add(clocksApart)
}

// shownOn is the certificate that the other end of a connection has shown; nil: none.
func shownOn(conn net.Conn) *x509.Certificate {
	var state tls.ConnectionState
	switch conn := conn.(type) {
	case secured:
		state = conn.tls.ConnectionState()
	case *tls.Conn:
		state = conn.ConnectionState()
	case *either:
		return conn.shown()
	}
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	return state.PeerCertificates[0]
}
