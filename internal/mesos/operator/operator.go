// Package operator answers what tools ask the master of a Mesos cluster, out of what Tender's masters say: the operator
// API, /api/v1, and the older routes such as /state. It is a client of the cluster like any other: what a caller may see
// and do is what the masters grant to the principal whose token the caller shows. It holds no state of the cluster.
package operator

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"iter"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/mesos/codec"
)

const (
	// callBytesMax bounds a call; a larger one is refused (413).
	callBytesMax = 4 << 20
	// callersMax bounds how many callers' connections to the cluster are kept. Beyond it the one that was used least
	// recently is closed.
	callersMax = 64
	// DefaultHeartbeat is how often a stream of events is sent a heartbeat.
	DefaultHeartbeat = 15 * time.Second
)

// Cluster is what a caller sees of the cluster; [*client.Client] is one.
type Cluster interface {
	Operator() apiv1.OperatorServiceClient
	Watch(ctx context.Context, request *apiv1.WatchRequest) iter.Seq2[*apiv1.WatchResponse, error]
	ReadTicket(ctx context.Context, task api.TaskRef, agent api.AgentID) (ticket string, fresh time.Duration, err error)
	ExecTicket(ctx context.Context, task api.TaskRef, agent api.AgentID) (ticket string, err error)
	DialAgent(ctx context.Context, address string) (net.Conn, error)
	GetFromMaster(ctx context.Context, address, path string) (client.Answer, error)
	GetFromAgent(ctx context.Context, address, path, ticket string) (client.Answer, error)
	PostToAgent(ctx context.Context, address, path, ticket string) (client.Answer, error)
	Close() error
}

// Config says which cluster is shown, and to whom.
type Config struct {
	// Cluster connects with a caller's token.
	Cluster func(ctx context.Context, token string) (Cluster, error)
	// Open lets in who shows no credentials, as the owner of Token. Otherwise each caller names a token of the cluster as
	// the password of its basic authentication.
	Open  bool
	Token string
	// Address is the host:port at which clients reach this process: what they take for the leading master.
	Address string
	// Adapter is the command line that agents start for executors of Mesos. Clients attach to tasks by it.
	Adapter []string
	// Heartbeat is the pause between two heartbeats of a stream. Default [DefaultHeartbeat].
	Heartbeat time.Duration
	// Log takes the log.
	Log zerolog.Logger
}

var _ Cluster = (*client.Client)(nil)

// Operator answers as a master of Mesos does.
type Operator struct {
	config Config
	began  time.Time
	now    func() time.Time
	routes map[string]route

	mu       sync.Mutex
	callers  []*caller  // the one used most recently is last
	sessions []*session // the oldest first
	nested   sync.WaitGroup
}

// caller is a connection to the cluster with one token.
type caller struct {
	proof   [sha256.Size]byte
	cluster Cluster
	users   int  // requests that use it
	dropped bool // to be closed by the last user
}

// New makes an Operator. Close ends it.
func New(config Config) *Operator {
	config.Heartbeat = cmp.Or(config.Heartbeat, DefaultHeartbeat)
	o := &Operator{config: config, began: time.Now(), now: time.Now}
	o.routes = o.table()
	return o
}

// Close closes the connections to the cluster. Requests that are under way end with an error.
func (o *Operator) Close() error {
	var errs []error
	o.mu.Lock()
	defer o.nested.Wait()
	defer o.mu.Unlock()
	for _, s := range o.sessions {
		if s.conn != nil {
			_ = s.conn.Close() // its command ends with it, if it has not ended
		}
	}
	for _, c := range o.callers {
		errs = append(errs, c.cluster.Close())
	}
	o.callers = nil
	return errors.Join(errs...)
}

// refusalOf is how an error of the cluster is answered.
func refusalOf(err error) *codec.Refusal {
	if p := (*codec.Refusal)(nil); errors.As(err, &p) {
		return p
	}
	code := http.StatusInternalServerError
	switch err := client.Error(err); api.KindOf(err) {
	case api.Denied, api.Removed, api.Fenced:
		code = http.StatusForbidden
	case api.NotFound:
		code = http.StatusNotFound
	case api.Invalid, api.Stale:
		code = http.StatusBadRequest
	case api.Exists, api.Limit:
		code = http.StatusConflict
	case api.Unsupported:
		code = http.StatusNotImplemented
	case api.Unavailable, api.NotLeader:
		code = http.StatusServiceUnavailable
	}
	return &codec.Refusal{Code: code, Text: client.Error(err).Error()}
}

// request is one request with its caller's view of the cluster.
type request struct {
	w       http.ResponseWriter
	r       *http.Request
	cluster Cluster
}

// route answers one path.
type route struct {
	methods string // those that it takes; "": all, as Mesos takes them where nothing is changed
	public  bool   // it shows nothing of the cluster, and needs no credentials
	answer  func(request) error
}

// ServeHTTP answers a request. Paths may begin with /master, as those of Mesos's master do.
func (o *Operator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.answer(w, r, o.routes, "/master")
}

// answer answers a request by a table of routes; paths may begin with the prefix.
func (o *Operator) answer(w http.ResponseWriter, r *http.Request, routes map[string]route, prefix string) {
	err := o.serve(w, r, routes, prefix)
	if err == nil {
		return
	}
	p := refusalOf(err)
	if p.Code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="mesos-master-readwrite"`)
	}
	o.config.Log.Debug().Str("path", r.URL.Path).Int("status", p.Code).Str("why", p.Text).Str("from", r.RemoteAddr).Msg("request refused")
	http.Error(w, p.Text, p.Code)
}

func (o *Operator) serve(w http.ResponseWriter, r *http.Request, routes map[string]route, prefix string) error {
	name := strings.TrimSuffix(r.URL.Path, "/")
	if rest := strings.TrimPrefix(name, prefix); rest == "" || rest[0] == '/' {
		name = rest
	}
	name = strings.TrimSuffix(name, ".json") // of releases before 1.0, which tools still ask for
	route, known := routes[name]
	for !known && len(name) > 1 { // what is below a route is the route's, as with libprocess: tools ask for /slaves/ID
		name = path.Dir(name)
		route, known = routes[name]
	}
	switch {
	case !known:
		return codec.Refuse(http.StatusNotFound, "Tender's gateway for Mesos has no %s", r.URL.Path)
	case route.methods != "" && !strings.Contains(route.methods, r.Method):
		w.Header().Set("Allow", route.methods)
		return codec.Refuse(http.StatusMethodNotAllowed, "Expecting one of { '%s' }, but received '%s'", strings.ReplaceAll(route.methods, ", ", "', '"), r.Method)
	case route.public:
		return route.answer(request{w: w, r: r})
	}
	caller, err := o.enter(r)
	if err != nil {
		return err
	}
	defer o.leave(caller)
	return route.answer(request{w, r, caller.cluster})
}

// Know says whether the credentials of a request are those of a principal of the cluster. The error is what to answer if
// they are not: a [*codec.Refusal].
func (o *Operator) Know(r *http.Request) error {
	caller, err := o.enter(r)
	if err != nil {
		return refusalOf(err)
	}
	o.leave(caller)
	return nil
}

// enter returns the caller's connection to the cluster, which leave gives back.
func (o *Operator) enter(r *http.Request) (*caller, error) {
	token := o.config.Token
	if !o.config.Open {
		name, password, ok := r.BasicAuth()
		if !ok || name == "" || password == "" {
			return nil, codec.Refuse(http.StatusUnauthorized, "authenticate as a principal, with a token of the cluster as the password")
		}
		token = password
	}
	proof := sha256.Sum256([]byte(token))
	if c := o.known(proof); c != nil {
		return c, nil
	}
	cluster, err := o.config.Cluster(r.Context(), token)
	if api.Is(err, api.Denied) || api.Is(err, api.Invalid) {
		return nil, codec.Refuse(http.StatusUnauthorized, "the token is none of the cluster: %v", err)
	}
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c := &caller{proof: proof, cluster: cluster, users: 1}
	if len(o.callers) == callersMax {
		oldest := o.callers[0]
		o.callers = o.callers[1:]
		if oldest.dropped = true; oldest.users == 0 {
			_ = oldest.cluster.Close() // nobody waits for it
		}
	}
	o.callers = append(o.callers, c)
	return c, nil
}

// known finds a caller that has come before, and marks it as used.
func (o *Operator) known(proof [sha256.Size]byte) *caller {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, c := range o.callers {
		if c.proof == proof {
			o.callers = append(append(o.callers[:i:i], o.callers[i+1:]...), c)
			c.users++
			return c
		}
	}
	return nil
}

func (o *Operator) leave(c *caller) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.users--; c.users == 0 && c.dropped {
		_ = c.cluster.Close() // nobody waits for it
	}
}

// writeJSON answers with a value as JSON.
func writeJSON(w http.ResponseWriter, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", codec.JSON.ContentType())
	_, _ = w.Write(append(text, '\n')) // a client that has gone needs no answer
	return nil
}
