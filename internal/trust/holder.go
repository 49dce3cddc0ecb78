package trust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
)

const (
	// memberName, joinName and leaderName are the server names that a client sends: the first if it is a member of the
	// cluster, the second if it has only a token, the third if it is a member that wants the server only if it leads.
	// They are no names of hosts.
	memberName = "member.tender"
	joinName   = "join.tender"
	leaderName = "leader.tender"
	// ticketsEvery is how often the key changes that encrypts the tickets for resuming sessions.
	ticketsEvery = 12 * time.Hour
)

// againExchanges are the key exchanges of a connection that resumes a session. Its keys are also made from the secret
// of that session (RFC 8446, section 7.1). So it stays as safe as the hybrid exchange of the first connection against
// somebody who records it for a quantum computer, and the additional exchange, which is for forward secrecy, may be the
// cheapest. A server that refuses to resume would make a new session with this exchange alone. No server of the cluster
// does that while it has its keys.
var againExchanges = []tls.CurveID{tls.CurveP256}

// Dial opens a connection to an address.
type Dial = func(ctx context.Context, address string) (net.Conn, error)

// Holder shows a pass and verifies those of others. The pass may be replaced at any time; connections continue. A nil
// holder is for a cluster without certificates: it shows nothing and verifies nothing.
type Holder struct {
	shown atomic.Pointer[showing]
}

// showing is a pass with the sessions that were begun with it. The server of a resumed session identifies the client by
// what was shown when the session began. So with another pass the client begins a new session, and nobody is identified
// by a certificate that has expired or is of a former authority.
type showing struct {
	pass     *Pass
	sessions *latestSession
}

// NewHolder returns a holder that shows a signed pass.
func NewHolder(p *Pass) *Holder {
	h := &Holder{}
	h.Replace(p)
	return h
}

// Pass returns the present pass.
func (h *Holder) Pass() *Pass { return h.shown.Load().pass }

// Replace makes the holder show another pass from now on.
func (h *Holder) Replace(p *Pass) {
	h.shown.Store(&showing{p, new(latestSession)})
}

// latestSession is the TLS session that a client resumes without another proof, whatever name it sends for the server.
type latestSession struct {
	kept atomic.Pointer[keptSession]
}

type keptSession struct {
	state *tls.ClientSessionState
	since time.Time
}

// Get returns the latest session, unless it may be too old for the masters' ticket keys.
func (l *latestSession) Get(string) (*tls.ClientSessionState, bool) {
	kept := l.kept.Load()
	if kept == nil || time.Since(kept.since) >= ticketsEvery {
		return nil, false
	}
	return kept.state, true
}

// Put keeps a session. crypto/tls puts nil when a handshake has failed, whatever the reason; see drop.
func (l *latestSession) Put(_ string, state *tls.ClientSessionState) {
	if state != nil {
		l.kept.Store(&keptSession{state, time.Now()})
	}
}

// drop forgets the session after a handshake that has failed because of it, for all that is known. A master that does not
// lead has not looked at it, nor has one whose connection is broken or that is too busy to answer. Without their sessions
// agents that come back after a failover would cost three times as much.
func (l *latestSession) drop(name string, err error) {
	broken := (*net.OpError)(nil)
	refused := errors.As(err, &broken) && broken.Op == alertOp
	switch {
	case refused && name == leaderName, broken != nil && !refused:
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	default:
		l.kept.Store(nil)
	}
}

// Dialer opens connections on which both sides have proved who they are, and whose other side is of one of these kinds.
func (h *Holder) Dialer(dial Dial, kinds ...Kind) Dial {
	return h.dialerFor(memberName, dial, kinds)
}

// dialerFor is Dialer with the server name to send.
func (h *Holder) dialerFor(name string, dial Dial, kinds []Kind) Dial {
	if h == nil {
		return plainDialer(dial)
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		now := h.shown.Load()
		conn, err := secureDialer(dial, func(string) *tls.Config { return h.client(now, name, kinds) })(ctx, address)
		if err != nil {
			now.sessions.drop(name, err)
		}
		return conn, err
	}
}

// secureDialer does a TLS handshake on each connection that dial opens, as config says for its address.
func secureDialer(dial Dial, config func(address string) *tls.Config) Dial {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		return handshake(ctx, address, tls.Client(conn, config(address)))
	}
}

// LeaderDialer opens connections to a master like Dialer, but only if the master leads. A master that does not lead
// refuses the first message, before either side has begun to prove anything, which is nearly all that a connection
// costs. refused is then called before the error is returned. Such a refusal proves nothing, because anybody on the way
// can send it. So a client that was refused everywhere has to ask without this condition. Without certificates there is
// no such message, and no condition.
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

// alertOp is the name that crypto/tls gives to an alert of the other side.
const alertOp = "remote error"

// errNotLeading is why a door refuses a client that wants the leader.
var errNotLeading = errors.New("it does not lead")

// ErrNoTLS says that a peer is of no cluster that has certificates.
var ErrNoTLS = errors.New("what listens there speaks no TLS; if the cluster runs with --insecure, come without token and context")

// handshake does the TLS handshake and closes the connection if it fails.
func handshake(ctx context.Context, address string, conn *tls.Conn) (net.Conn, error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = conn.NetConn().Close()
		if header := (tls.RecordHeaderError{}); errors.As(err, &header) {
			err = ErrNoTLS
		}
		kind := api.Unavailable
		if api.Is(err, api.Denied) { // we have refused: who listens there is not whom we look for
			kind = api.Denied
		}
		return nil, api.E("trust.handshake", kind, address, err)
	}
	return newSecured(conn), nil
}

func (h *Holder) client(now *showing, name string, kinds []Kind) *tls.Config {
	var exchanges []tls.CurveID // none: Go's default exchanges, a hybrid one first
	if _, again := now.sessions.Get(name); again {
		exchanges = againExchanges
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: name, NextProtos: []string{"h2", "http/1.1"}, CurvePreferences: exchanges,
		// The other side is an identity and not a host; VerifyConnection checks it.
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

// ForHosts returns how to serve programs that know nothing of Tender: they know the server by the hosts in its
// certificate. Old ones speak no newer TLS than 1.2.
func (h *Holder) ForHosts() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &h.Pass().shown, nil }}
}

// HostDialer opens connections to such servers, which have to show that the authority knows them by their host.
func (h *Holder) HostDialer(dial Dial) Dial {
	return secureDialer(dial, func(address string) *tls.Config {
		host, _, _ := net.SplitHostPort(address) // dial has read the address
		return &tls.Config{
			MinVersion: tls.VersionTLS13, ServerName: host,
			InsecureSkipVerify: true, //nolint:gosec // VerifyConnection knows the authority, which may change
			VerifyConnection: func(state tls.ConnectionState) error {
				if _, err := h.check(state, nil); err != nil {
					return err
				}
				return state.PeerCertificates[0].VerifyHostname(host)
			},
		}
	})
}

// Shown is what a peer has shown on a connection.
type Shown struct {
	Identity  Identity
	Authority Digest // the authority that has signed it
	Ends      time.Time
}

// check refuses a peer that is not of this cluster or not of one of these kinds; no kinds means that any will do.
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

// Look returns what a master shows now. It always makes a new session, because a resumed one would show nothing new.
func (h *Holder) Look(ctx context.Context, dial Dial, address string) (Shown, error) {
	var shown Shown
	config := h.client(h.shown.Load(), memberName, []Kind{Master})
	config.ClientSessionCache = nil
	config.VerifyConnection = func(state tls.ConnectionState) (err error) {
		shown, err = h.check(state, []Kind{Master})
		return err
	}
	secure, err := secureDialer(dial, func(string) *tls.Config { return config })(ctx, address)
	if err != nil {
		return Shown{}, err
	}
	_ = secure.Close() // it has been of use
	return shown, nil
}

// Door says who is admitted at a listener.
type Door struct {
	// Kinds are admitted; none: all kinds of the cluster.
	Kinds []Kind
	// Strangers admits peers without a certificate, as [Nobody]. What they may do is decided later.
	Strangers bool
	// Joiners admits peers without a certificate, as [Nobody], if they say that they have only a token.
	Joiners bool
	// Leads, if set, is called when a client wants the leader only, before anything is computed or stored for that
	// client. It may wait until it knows. If it returns false, the client is refused. The client has not been
	// identified at that time.
	Leads func(context.Context) bool
	// Tickets, if set, is the key from which the ticket keys are derived, so that all who have the same key can resume
	// each other's sessions.
	Tickets Key
	// Protocols are the application protocols that clients may ask for. Default: none are named.
	Protocols []string
	// Seen, if set, is called at each handshake with what was shown.
	Seen func(Shown)
	// Ended, if set, is called for a former member of the cluster whose certificate counts no more.
	Ended func(*EndedError)
	// Anew disables resumption: on each connection the peer proves anew who it is.
	Anew bool
	// Plain admits clients without TLS, as [Nobody]. It is for a listener that only this machine can reach.
	Plain bool
}

// Server returns the TLS 1.3 configuration for a listener.
func (h *Holder) Server(door Door) *tls.Config {
	member := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: door.Protocols, ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: door.Anew,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &h.Pass().shown, nil },
		VerifyConnection: func(state tls.ConnectionState) error {
			if door.Strangers && len(state.PeerCertificates) == 0 {
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
	joiner := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: door.Protocols, SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return h.Pass().withRoots(), nil },
	}
	tickets := &ticketKeys{from: door.Tickets, config: member}
	member.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if door.Joiners && hello.ServerName == joinName {
			return joiner, nil
		}
		if door.Leads != nil && hello.ServerName == leaderName {
			if !door.Leads(hello.Context()) {
				return nil, errNotLeading
			}
			if turn, in := hello.Conn.(*inTurn); in {
				if err := turn.wait(hello.Context()); err != nil {
					return nil, err
				}
			}
		}
		tickets.change(time.Now())
		return nil, nil
	}
	return member
}

// withRoots returns the certificate with all anchors, because joiners know one of the anchors by its digest.
func (p *Pass) withRoots() *tls.Certificate {
	all := p.shown
	all.Certificate = [][]byte{p.leaf.Raw}
	for _, anchor := range p.anchors.List() {
		all.Certificate = append(all.Certificate, anchor.Raw)
	}
	return &all
}

// ticketKeys changes the ticket keys. All who have the cluster's key derive the same ones.
type ticketKeys struct {
	from   Key
	config *tls.Config
	turn   atomic.Int64
}

// change sets the keys of the present period and of the one before.
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

// JoinDialer opens connections to masters of the cluster whose authority has the digest. It is for a client that has
// only a token.
func JoinDialer(dial Dial, digest Digest) Dial {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: joinName, NextProtos: []string{"h2"},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection knows the authority by its digest
		VerifyConnection:   func(state tls.ConnectionState) error { return checkDigest(state.PeerCertificates, digest) },
	}
	return secureDialer(dial, func(string) *tls.Config { return config })
}

// checkDigest refuses a server that is not a master of the authority with this digest. The master itself names the
// cluster: the authority with the digest signs for no other one.
func checkDigest(shown []*x509.Certificate, digest Digest) error {
	const op = "trust.join"
	for _, known := range shown[:min(len(shown), shownMax)] {
		if DigestOf(known) != digest || !known.IsCA {
			continue
		}
		if now := time.Now(); now.After(known.NotAfter) {
			continue // it is of a former authority, or another certificate of this one
		}
		judge := &Pass{anchors: Anchors{Root: known}, pool: poolOf(known)}
		if leaf, err := FromURI(onlyURI(shown[0])); err == nil {
			judge.identity.Cluster = leaf.Cluster
		}
		identity, err := judge.Identify(shown, time.Now())
		if err == nil && identity.Kind != Master {
			err = api.E(op, api.Denied, identity.String(), errors.New("it is no master"))
		}
		return err
	}
	return api.E(op, api.Denied, "", errors.New("the token is not of the cluster whose masters listen there, or of an authority that counts no more; an operator gives another one: tender token create"))
}

// onlyURI returns the name in a certificate; an empty URL if it has none or several.
func onlyURI(certificate *x509.Certificate) *url.URL {
	if len(certificate.URIs) != 1 {
		return &url.URL{}
	}
	return certificate.URIs[0]
}

// PeerOf returns who is at the other end of a connection after the handshake; [Nobody] without a certificate.
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

// SignedAt returns when the certificate was signed that the other end of a connection has shown; zero without one.
func SignedAt(conn net.Conn) time.Time {
	leaf := shownOn(conn)
	if leaf == nil {
		return time.Time{}
	}
	return leaf.NotBefore.Add(clocksApart)
}

// shownOn returns the certificate that the other end of a connection has shown; nil: none.
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
