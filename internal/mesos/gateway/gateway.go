// Package gateway lets frameworks that were written for Apache Mesos run on Tender: it answers Mesos's scheduler API, and
// is a framework of Tender for each of them, through the public SDK alone. Masters and agents learn nothing of it.
//
// A subscription is one stream of events, one session here and one Run of the SDK. Nothing that was answered lives only
// in this process: the ID that a framework is told is Tender's own, statuses that nobody has acknowledged are their
// agents', and where volumes are wanted is in the framework's store. So any gateway can go on for any other: a framework
// that subscribes again, here or elsewhere, fences its former session.
//
// What of the API has no equivalent is in package translate. The operator API is not answered here.
package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/mesos/codec"
	"github.com/tenderhq/tender/internal/mesos/translate"
	schedulerv1 "github.com/tenderhq/tender/internal/mesos/v1/scheduler"
)

const (
	// DefaultHeartbeat is how often a stream is sent a heartbeat. Mesos's is 15 s, and there are clients that take a
	// stream for dead after 10 s of silence, or handle an event only when the next one comes.
	DefaultHeartbeat = 5 * time.Second
	// callBytesMax bounds a call; a larger one is refused (413). It is as much as old clients read.
	callBytesMax = 4 << 20
	// sessionsMax bounds the frameworks that are subscribed at one gateway; one more is refused (503).
	sessionsMax = 4096
	// connectTimeout bounds how long a subscription waits for a leader before it is answered 503: old clients wait 5 s
	// for the headers of an answer.
	connectTimeout = 4500 * time.Millisecond
)

// Config says which cluster the gateway stands before, and how.
type Config struct {
	// Masters are those of [framework.Config].
	Masters []string
	// Token is by what frameworks join the cluster that come without credentials. Without Open it is not used.
	Token string
	// Open lets frameworks subscribe without credentials, as the gateway's own principal. Otherwise each names a token of
	// the cluster as the password of its basic authentication, and is the principal of that token.
	Open bool
	// Know says whether the credentials of a request are those of a principal of the cluster; the error is what to answer
	// if they are not. It is asked about calls of frameworks that have not subscribed here. Default: they are.
	Know func(*http.Request) error
	// Dialer opens connections to masters. Default: TCP.
	Dialer func(ctx context.Context, address string) (net.Conn, error)
	// Address is the host:port at which clients reach this gateway.
	Address string
	// Peers are the host:port of other gateways. A call of a framework that has not subscribed here is passed on to them.
	Peers []string
	// DialTLS opens connections to peers by TLS, by which this gateway is reached as well; nil: they are reached without.
	DialTLS func(ctx context.Context, network, address string) (net.Conn, error)
	// Adapter is the command that agents start for executors of the frameworks' own.
	Adapter api.Command
	// Heartbeat is the pause between two heartbeats of a stream. Default [DefaultHeartbeat].
	Heartbeat time.Duration
	// Lookup finds the addresses of a host. Default: the machine's resolver.
	Lookup func(ctx context.Context, host string) ([]net.IP, error)
	// Log takes the log of the gateway and of the SDK. Default: discarded.
	Log io.Writer
	// Dial opens connections to peers. Default: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Run runs a framework. Default: [framework.Run].
	Run func(context.Context, framework.Config, framework.Scheduler) error
}

// Gateway answers /api/v1/scheduler.
type Gateway struct {
	config Config
	log    *slog.Logger
	life   context.Context // ends with the gateway: streams end, and no framework is removed
	stop   context.CancelFunc
	hosts  hosts
	peers  *http.Client

	mu       sync.Mutex
	sessions map[api.FrameworkID]*session // those whose framework has its ID
	begun    int                          // sessions that have begun and not ended
	running  sync.WaitGroup               // one for each session that has begun
}

// New makes a gateway. Close ends it.
func New(config Config) *Gateway {
	config.Heartbeat = cmp.Or(config.Heartbeat, DefaultHeartbeat)
	if config.Run == nil {
		config.Run = framework.Run
	}
	if config.Know == nil {
		config.Know = func(*http.Request) error { return nil }
	}
	if config.Lookup == nil {
		config.Lookup = func(ctx context.Context, host string) ([]net.IP, error) {
			return net.DefaultResolver.LookupIP(ctx, "ip", host)
		}
	}
	g := &Gateway{config: config, peers: &http.Client{Timeout: passTimeout}, log: slog.New(slog.DiscardHandler), sessions: make(map[api.FrameworkID]*session)}
	if config.Dial != nil || config.DialTLS != nil {
		g.peers.Transport = &http.Transport{DialContext: config.Dial, DialTLSContext: config.DialTLS}
	}
	if config.Log != nil {
		g.log = slog.New(slog.NewTextHandler(config.Log, nil))
	}
	g.life, g.stop = context.WithCancel(context.Background())
	g.hosts = hosts{lookup: config.Lookup, known: make(map[string]string)}
	return g
}

// Close ends all streams and waits until they have ended. The frameworks and their tasks live on for their failover
// timeouts.
func (g *Gateway) Close() {
	g.stop()
	g.running.Wait()
	g.peers.CloseIdleConnections()
}

// ServeHTTP answers a call of a scheduler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := g.serve(w, r)
	if err == nil {
		return
	}
	p := new(codec.Refusal)
	if !errors.As(err, &p) {
		p = codec.Refuse(http.StatusInternalServerError, "%v", err)
	}
	switch p.Code {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Basic realm="mesos-master-scheduler"`)
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	}
	g.log.Info("call refused", "status", p.Code, "why", p.Text, "from", r.RemoteAddr)
	http.Error(w, p.Text, p.Code)
}

func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return codec.Refuse(http.StatusMethodNotAllowed, "Expecting one of { 'POST' }, but received '%s'", r.Method)
	}
	who, err := g.identify(r)
	if err != nil {
		return err
	}
	call, body, err := readCall(w, r)
	if err != nil {
		return err
	}
	if err := validate(call, who.name); err != nil {
		return err
	}
	if call.GetType() == schedulerv1.Call_SUBSCRIBE {
		return g.subscribe(w, r, who, call.GetSubscribe())
	}
	return g.act(w, r, who, call, body)
}

// act answers a call of a framework that is subscribed here.
func (g *Gateway) act(w http.ResponseWriter, r *http.Request, who caller, call *schedulerv1.Call, body []byte) error {
	id := api.FrameworkID(call.GetFrameworkId().GetValue())
	g.mu.Lock()
	s := g.sessions[id]
	g.mu.Unlock()
	stream := r.Header.Get(streamHeader)
	switch {
	case s == nil && g.passOn(w, r, body):
		return nil
	case s == nil:
		return cmp.Or(g.config.Know(r), error(codec.Refuse(http.StatusForbidden, notSubscribed)))
	case who.proof != s.who.proof:
		return codec.Refuse(http.StatusUnauthorized, "the credentials are not those with which the framework has subscribed")
	case stream == "":
		return codec.Refuse(http.StatusBadRequest, "All non-subscribe calls should include the '%s' header", streamHeader)
	case stream != s.stream:
		return codec.Refuse(http.StatusBadRequest, "The stream ID '%s' included in this request didn't match the stream ID currently "+
			"associated with framework ID %s", stream, id)
	}
	code, err := s.do(r.Context(), call)
	if err != nil {
		return err
	}
	w.WriteHeader(code)
	return nil
}

// caller is who makes a call.
type caller struct {
	name  string // as which it has authenticated; "" where nobody needs to
	token string // by which its framework joins the cluster
	proof [sha256.Size]byte
}

// identify reads the credentials. Whether the token is one of the cluster, the masters say when it subscribes.
func (g *Gateway) identify(r *http.Request) (caller, error) {
	if g.config.Open {
		return caller{token: g.config.Token}, nil // some clients send empty credentials where none are needed
	}
	header := r.Header.Get("Authorization")
	name, password, ok := r.BasicAuth()
	if !ok || name == "" || password == "" {
		return caller{}, codec.Refuse(http.StatusUnauthorized, "authenticate as a principal, with a token of the cluster as the password")
	}
	return caller{name: name, token: password, proof: sha256.Sum256([]byte(header))}, nil
}

// readCall returns a call, and the body in which it came.
func readCall(w http.ResponseWriter, r *http.Request) (*schedulerv1.Call, []byte, error) {
	encoding, body, err := codec.ReadBody(w, r, callBytesMax)
	if err != nil {
		return nil, nil, err
	}
	call := new(schedulerv1.Call)
	switch err := encoding.Unmarshal(body, call); {
	case err != nil && encoding == codec.Protobuf:
		return nil, nil, codec.Refuse(http.StatusBadRequest, "Failed to parse body into Call protobuf")
	case err != nil:
		return nil, nil, codec.Refuse(http.StatusBadRequest, "Failed to convert JSON into Call protobuf: %v", err)
	}
	return call, body, nil
}

// validate checks what Mesos checks of every call. principal is who has authenticated, or "".
func validate(call *schedulerv1.Call, principal string) error {
	invalid := func(format string, args ...any) error {
		return codec.Refuse(http.StatusBadRequest, "Failed to validate scheduler::Call: "+format, args...)
	}
	if call.Type == nil {
		return invalid("Expecting 'type' to be present")
	}
	if name := missing(call); name != "" {
		return invalid("Expecting '%s' to be present", name)
	}
	id := call.GetFrameworkId().GetValue()
	switch call.GetType() {
	case schedulerv1.Call_SUBSCRIBE:
		info := call.GetSubscribe().GetFrameworkInfo()
		switch {
		case info.GetId().GetValue() != id:
			return invalid("'framework_id' differs from 'subscribe.framework_info.id'")
		case principal != "" && info.Principal != nil && info.GetPrincipal() != principal:
			return invalid("Authenticated principal '%s' does not match principal '%s' set in `FrameworkInfo`", principal, info.GetPrincipal())
		}
		return nil
	case schedulerv1.Call_UPDATE_FRAMEWORK:
		if call.GetUpdateFramework().GetFrameworkInfo().GetId().GetValue() != id {
			return invalid("'framework_id' differs from 'update_framework.framework_info.id'")
		}
	case schedulerv1.Call_ACKNOWLEDGE:
		if uuid := call.GetAcknowledge().GetUuid(); len(uuid) != uuidBytes {
			return invalid("Not a valid UUID: expected %d bytes, got %d", uuidBytes, len(uuid))
		}
	}
	if id == "" {
		return invalid("Expecting 'framework_id' to be present")
	}
	return nil
}

const uuidBytes = 16

// missing returns the name of the field that a call of this type needs and does not have, or "".
func missing(call *schedulerv1.Call) string {
	name := strings.ToLower(call.GetType().String())
	switch call.GetType() {
	case schedulerv1.Call_TEARDOWN, schedulerv1.Call_REVIVE, schedulerv1.Call_SUPPRESS, schedulerv1.Call_UNKNOWN:
		return "" // they need none
	}
	m := call.ProtoReflect()
	for i := range m.Descriptor().Fields().Len() {
		if field := m.Descriptor().Fields().Get(i); string(field.Name()) == name {
			if m.Has(field) {
				return ""
			}
			return name
		}
	}
	return ""
}

// hosts remembers the addresses of agents' hosts.
type hosts struct {
	lookup func(ctx context.Context, host string) ([]net.IP, error)
	mu     sync.Mutex
	known  map[string]string
}

const (
	// hostsMax bounds the remembered addresses; beyond it all are forgotten.
	hostsMax = 1 << 16
	// lookupTimeout bounds a search for a host's address: the events of a framework wait for it, once for each host.
	lookupTimeout = 500 * time.Millisecond
)

// ip returns an address of the host.
func (h *hosts) ip(ctx context.Context, host string) string {
	h.mu.Lock()
	ip := h.known[host]
	h.mu.Unlock()
	if host == "" { // of a task that has ended
		return translate.AddressOf(host)
	}
	if ip != "" {
		return ip
	}
	ctx, done := context.WithTimeout(ctx, lookupTimeout)
	defer done()
	found, _ := h.lookup(ctx, host) // without an answer the loopback's address is told
	ip = translate.AddressOf(host, found...)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.known) >= hostsMax {
		clear(h.known)
	}
	h.known[host] = ip
	return ip
}
