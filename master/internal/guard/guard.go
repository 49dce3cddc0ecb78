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
	"github.com/tenderhq/tender/internal/audit"
	"github.com/tenderhq/tender/internal/rights"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

// Access is how a master knows who calls, and where it writes down what they change. The zero value asks nobody.
type Access struct {
	// Identify says who is at the other end of a call, by its context. Nil: nobody is asked, and anybody may do everything.
	Identify func(context.Context) trust.Identity
	// Domain is the cluster whose certificates count. Empty: whichever Identify lets through.
	Domain string
	// AuditLog is the file that takes a line of JSON for each change that somebody asks for; "-" is standard output, "off"
	// none. Default: audit.log in the data folder; without a folder none.
	AuditLog string
}

// Guard admits calls. New, then Watch for as long as it serves.
type Guard struct {
	access     Access
	log        zerolog.Logger
	principals func() map[string]registry.Principal
	index      func() uint64 // of the registry
	denied     *prometheus.CounterVec
	unwritten  prometheus.Counter
	audit      *audit.Log
	recent     *audit.Recent // what the audit log has got last
	shares     *shares

	mu   sync.Mutex
	live map[*stream]struct{} // guarded by mu
}

// New makes a guard. Principals are those of the registry as this master knows it.
func New(
	access Access, dir string, log zerolog.Logger, principals func() map[string]registry.Principal, index func() uint64, metrics prometheus.Registerer,
) (*Guard, error) {
	file, err := audit.Open(access.AuditLog, dir)
	if err != nil {
		return nil, err
	}
	recent, err := file.Recent(time.Now().UTC())
	if err != nil {
		log.Warn().Err(err).Msg("what the audit log has from before can't be read back")
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

// linesPerSecond bounds what the log says of denied calls and changes; all of them are counted, and all changes audited.
const linesPerSecond = 16

// Close ends the audit log.
func (g *Guard) Close() error { return g.audit.Close() }

// permit is what was decided of a call.
type permit struct {
	row    rights.Row
	caller rights.Caller
	scope  rights.Scope
	denied error // why the caller may not make it; nil: he may
	note   *note
}

type permitKey struct{}

func permitOf(ctx context.Context) (permit, bool) {
	p, has := ctx.Value(permitKey{}).(permit)
	return p, has
}

// ScopeOf says on which objects the caller may do what he calls. A call that nobody has admitted covers nothing.
func ScopeOf(ctx context.Context) rights.Scope {
	p, _ := permitOf(ctx)
	return p.scope
}

// CallerOf is who makes an admitted call.
func CallerOf(ctx context.Context) rights.Caller {
	p, _ := permitOf(ctx)
	return p.caller
}

// RowOf is the row of the table that an admitted call was held to.
func RowOf(ctx context.Context) rights.Row {
	p, _ := permitOf(ctx)
	return p.row
}

// Admit decides about a call and returns its context with what was decided, also where it was denied: whoever asks calls Done.
// One that was decided about already is not asked about again.
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

// May says why somebody may not do what a call is for, or nil: of whom this master calls itself. It counts a refusal.
func (g *Guard) May(call string, identity trust.Identity) error {
	row, _ := rights.RowOf(call)
	caller := g.known(identity)
	if _, err := rights.Decide(row, caller); err != nil {
		g.denied.WithLabelValues(call, string(caller.Kind)).Inc()
		return err
	}
	return nil
}

// Done hears what became of a call: what was denied is counted, and what was to change something is written down. Request is
// what was asked; nil: it was not read. What it is told first counts; false: it was told before.
func (g *Guard) Done(ctx context.Context, request any, result error) bool {
	p, has := permitOf(ctx)
	if !has || p.note.done {
		return false
	}
	p.note.done = true
	if p.denied != nil {
		result = p.denied // whatever its caller is told
	}
	if result != nil && wire.Error(result).Kind == api.Denied {
		g.countDenied(ctx, p, result)
	}
	if p.writtenDown() {
		g.writeDown(ctx, p, request, result)
	}
	return true
}

// caller is who makes a call, and what was granted to him.
func (g *Guard) caller(ctx context.Context) rights.Caller {
	if g.access.Identify == nil {
		return rights.Caller{Kind: rights.Anybody}
	}
	caller := g.known(g.access.Identify(ctx))
	caller.Browser = ctx.Value(browserKey{}) != nil
	return caller
}

// browserKey is where the context of a request says that a cookie was shown.
type browserKey struct{}

// OfBrowser is ctx for a request of somebody who is known by a cookie.
func OfBrowser(ctx context.Context) context.Context {
	return context.WithValue(ctx, browserKey{}, true)
}

// known is an identity with what the registry says of it.
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

// countDenied counts a call that was denied, and says in the log whose.
func (g *Guard) countDenied(ctx context.Context, p permit, err error) {
	g.denied.WithLabelValues(p.row.Call, string(p.caller.Kind)).Inc()
	g.log.Warn().Str("call", p.row.Call).Stringer("who", p.caller).Str("from", From(ctx)).Err(err).Msg("call denied")
}

// fromKey is where the context of a request of HTTP has its address.
type fromKey struct{}

// From is where a call comes from.
func From(ctx context.Context) string {
	if from, http := ctx.Value(fromKey{}).(string); http {
		return from
	}
	if from, known := peer.FromContext(ctx); known {
		return from.Addr.String()
	}
	return ""
}

// Route holds a route of HTTP to its row. Refuse writes the refusal.
func (g *Guard) Route(call string, handler http.Handler, refuse func(http.ResponseWriter, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, err := g.Admit(context.WithValue(r.Context(), fromKey{}, r.RemoteAddr), call)
		if err != nil {
			g.Done(ctx, structpb.NewStringValue(r.URL.RequestURI()), err)
			refuse(w, err)
			return
		}
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
}
