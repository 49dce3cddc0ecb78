package guard

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/audit"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

// Access says how a master learns who calls, and where it records what callers change. The zero value identifies
// nobody.
type Access struct {
	// Identify returns who makes a call, by the call's context. Nil: callers are not identified, and anybody may do
	// everything.
	Identify func(context.Context) trust.Identity
	// Domain is the cluster whose certificates are accepted. Empty: all that Identify accepts.
	Domain string
	// AuditLog is the file that gets a line of JSON for each change that somebody asks for; "-" means standard output,
	// "off" none. Default: audit.log in the data folder, or none without a folder.
	AuditLog string
}

// Guard admits calls. Call New, then Watch for as long as it serves.
type Guard struct {
	access     Access
	log        zerolog.Logger
	principals func() map[string]registry.Principal
	index      func() uint64 // returns the index of the registry
	denied     *prometheus.CounterVec
	unwritten  prometheus.Counter
	audit      *audit.Log
	recent     *audit.Recent // the newest lines of the audit log
	shares     *shares

	mu   sync.Mutex
	live map[*stream]struct{} // guarded by mu
}

// New makes a guard. The function principals returns the registry's principals as this master knows them.
func New(
	access Access, dir string, log zerolog.Logger, principals func() map[string]registry.Principal, index func() uint64, metrics prometheus.Registerer,
) (*Guard, error) {
	file, err := audit.Open(access.AuditLog, dir)
	if err != nil {
		return nil, err
	}
	recent, err := file.Recent(time.Now().UTC())
	if err != nil {
		log.Warn().Err(err).Msg("the earlier lines of the audit log can't be read")
	}
	g := &Guard{
		access: access, log: log.Sample(&zerolog.BurstSampler{Burst: linesPerSecond, Period: time.Second}), principals: principals, index: index, audit: file, recent: recent,
		live: make(map[*stream]struct{}), shares: newShares(metrics),
		denied: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tender_calls_denied_total", Help: "Calls that were denied, by what was called and what kind of caller it was; the log says who.",
		}, []string{"call", "by"}),
		unwritten: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tender_audit_unwritten_total", Help: "Changes and denials whose line could not be written to the audit log, as on a full disk.",
		}),
	}
	metrics.MustRegister(g.denied, g.unwritten)
	return g, nil
}

// linesPerSecond bounds the log lines about denied calls and changes. All of them are counted, and all changes are
// audited.
const linesPerSecond = 16

// Close closes the audit log.
func (g *Guard) Close() error { return g.audit.Close() }

// permit is what was decided about a call.
type permit struct {
	row    rights.Row
	caller rights.Caller
	scope  rights.Scope
	denied error // why the caller may not make the call; nil: the caller may
	note   *note
}

type permitKey struct{}

func permitOf(ctx context.Context) (permit, bool) {
	p, has := ctx.Value(permitKey{}).(permit)
	return p, has
}

// ScopeOf returns on which objects the caller may do what the call does. The scope of a call that was not admitted is
// empty.
func ScopeOf(ctx context.Context) rights.Scope {
	p, _ := permitOf(ctx)
	return p.scope
}

// CallerOf returns who makes an admitted call.
func CallerOf(ctx context.Context) rights.Caller {
	p, _ := permitOf(ctx)
	return p.caller
}

// RowOf returns the row of the table of rights against which an admitted call was checked.
func RowOf(ctx context.Context) rights.Row {
	p, _ := permitOf(ctx)
	return p.row
}

// Admit decides about a call. It returns the call's context with the decision, even if the call is denied, because the
// caller of Admit must call Done. A call that was decided about already is not decided about again.
func (g *Guard) Admit(ctx context.Context, call string) (context.Context, error) {
	if p, has := permitOf(ctx); has && p.row.Call == call {
		return ctx, p.denied
	}
	caller := g.caller(ctx)
	row, known := rights.RowOf(call)
	if !known {
		row = rights.Row{Call: call}
	}
	p := permit{row: row, caller: caller, note: new(note)}
	if scope, err := rights.Decide(row, caller); err != nil {
		p.denied = err
	} else {
		p.scope = scope
	}
	return context.WithValue(ctx, permitKey{}, p), p.denied
}

// May says why the peer with this identity may not do what a call is for; nil if it may. It is for connections that
// this master itself opens. It counts a refusal.
func (g *Guard) May(call string, identity trust.Identity) error {
	row, _ := rights.RowOf(call)
	caller := g.known(identity)
	if _, err := rights.Decide(row, caller); err != nil {
		g.denied.WithLabelValues(call, string(caller.Kind)).Inc()
		return err
	}
	return nil
}

// Done records the result of a call. A denied call is counted, and a call that was to change something is written to
// the audit log. The request is nil if it was not read. Only the first call of Done counts; it returns false for
// further ones.
func (g *Guard) Done(ctx context.Context, request any, result error) bool {
	p, has := permitOf(ctx)
	if !has || p.note.done {
		return false
	}
	p.note.done = true
	if p.denied != nil {
		result = p.denied // whatever the caller was told
	}
	if result != nil && wire.Error(result).Kind == api.Denied {
		g.countDenied(ctx, p, result)
	}
	if p.writtenDown() {
		g.writeDown(ctx, p, request, result)
	}
	return true
}

// caller returns who makes a call, and what was granted to that caller.
func (g *Guard) caller(ctx context.Context) rights.Caller {
	if g.access.Identify == nil {
		return rights.Caller{Kind: rights.Anybody}
	}
	from := g.access.Identify(ctx)
	caller := g.known(from)
	caller.Browser = ctx.Value(browserKey{}) != nil
	return g.forPerson(ctx, caller, from)
}

// browserKey is the key under which the context of a request says that it came with a cookie.
type browserKey struct{}

// OfBrowser returns ctx for a request whose caller is known by a cookie.
func OfBrowser(ctx context.Context) context.Context {
	return context.WithValue(ctx, browserKey{}, true)
}

// known returns the caller with this identity, and what the registry says about it.
func (g *Guard) known(identity trust.Identity) rights.Caller {
	c := rights.Caller{Kind: rights.Kind(identity.Kind.String()), Name: identity.Name}
	if c.Kind != rights.Nobody && g.access.Domain != "" && identity.Cluster != g.access.Domain {
		c.Foreign = identity.Cluster
		return c
	}
	name := c.Principal()
	if name == "" {
		return c
	}
	principal := g.principals()[name]
	if c.Grants = principal.Grants; !principal.Revoked.IsZero() {
		c.Revoked = fmt.Sprintf("it was revoked at %s: %s", principal.Revoked.UTC().Format(time.RFC3339), principal.Why)
	}
	return c
}

// countDenied counts a call that was denied, and logs who made it.
func (g *Guard) countDenied(ctx context.Context, p permit, err error) {
	g.denied.WithLabelValues(p.row.Call, string(p.caller.Kind)).Inc()
	g.log.Warn().Str("call", p.row.Call).Stringer("who", p.caller).Str("from", From(ctx)).Err(err).Msg("call denied")
}

// fromKey is the key under which the context of an HTTP request holds its address.
type fromKey struct{}

// From returns the address from which a call comes.
func From(ctx context.Context) string {
	if from, http := ctx.Value(fromKey{}).(string); http {
		return from
	}
	if from, known := peer.FromContext(ctx); known {
		return from.Addr.String()
	}
	return ""
}

// Route checks the requests of an HTTP route against its row. The function refuse writes a refusal.
func (g *Guard) Route(call string, handler http.Handler, refuse func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, err := g.Admit(context.WithValue(r.Context(), fromKey{}, r.RemoteAddr), call)
		if err != nil {
			g.Done(ctx, structpb.NewStringValue(r.URL.RequestURI()), err)
			refuse(w, r, err)
			return
		}
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
}
