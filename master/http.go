package master

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/intake"
	"github.com/tenderhq/tender/master/internal/raftlog"
)

// httpServer serves people, probes and Prometheus over HTTP.
type httpServer struct {
	config   *Config
	raft     *raftlog.Log
	intake   *intake.Intake
	guard    *guard.Guard
	metrics  *metrics
	leading  *leadership
	proof    *proof
	masters  *masters
	calls    *calls
	watches  *watchLogs
	services *services
	log      *zerolog.Logger

	server *http.Server
	page   *pageCluster // nil: there is none
}

const (
	headerTimeout  = 10 * time.Second
	requestTimeout = time.Minute // also for a profile, whose recording takes as long
	idleTimeout    = 2 * time.Minute
	headerBytesMax = 64 << 10
)

// prepare makes the handler of all that is served.
func (s *httpServer) prepare() {
	mux := http.NewServeMux()
	for pattern, handler := range s.routes() {
		call := "master " + pattern
		mux.Handle(pattern, s.guard.Route(call, handler, func(w http.ResponseWriter, r *http.Request, err error) {
			if s.proof.isTooEarly(r.Context(), err) {
				err = s.proof.tooEarly(call)
			}
			writeError(w, err)
		}))
	}
	s.page = s.addPage(mux)
	// A page of another site must not use the rights of its visitor.
	origins := http.NewCrossOriginProtection()
	s.server = serverOf(s.paid(s.proof.known(origins.Handler(mux))))
	if s.page != nil {
		s.server.RegisterOnShutdown(s.page.server.End) // whoever keeps the page open is not waited for
	}
}

// serverOf returns a server for the handler, with limits on the time and size of requests.
func serverOf(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      2 * requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytesMax,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return trust.WithConn(intake.WithSender(ctx, conn), conn)
		},
	}
}

// routes returns all that is served over HTTP, by the patterns that the table of rights names.
func (s *httpServer) routes() map[string]http.Handler {
	return map[string]http.Handler{
		"/v1/":                 s.newJSONHandler(),
		"GET /metrics":         s.serveMetrics(promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{DisableCompression: true})),
		"GET /v1/watch":        http.HandlerFunc(s.serveWatch),
		"GET /v1/flags":        http.HandlerFunc(s.serveFlags),
		"GET /v1/log":          http.HandlerFunc(s.config.Log.Written.Show),
		"GET /v1/log-level":    http.HandlerFunc(s.serveLogLevel),
		"PUT /v1/log-level":    http.HandlerFunc(s.setLogLevel),
		"GET /healthz":         http.HandlerFunc(healthz),
		"GET /readyz":          http.HandlerFunc(s.readyz),
		"/debug/pprof/":        http.HandlerFunc(pprof.Index),
		"/debug/pprof/profile": oneAtATime(pprof.Profile),
		"/debug/pprof/trace":   oneAtATime(pprof.Trace),
		"/debug/pprof/symbol":  http.HandlerFunc(pprof.Symbol),
	}
}

func healthz(w http.ResponseWriter, _ *http.Request) { sentence(w, http.StatusOK, "ok") }

// serveFlags shows the flags that this master was started with, as agents show theirs.
func (s *httpServer) serveFlags(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"version": s.config.Version, "flags": s.config.Log.Flags}) // an error only means that the client has gone
}

var errNoLogLevel = errors.New("the level of this process's log is not known; it can't be changed")

func (s *httpServer) serveLogLevel(w http.ResponseWriter, _ *http.Request) {
	if s.config.Log.Level == nil {
		writeError(w, api.E("master.log-level", api.Unsupported, s.config.ID, errNoLogLevel))
		return
	}
	_ = s.config.Log.Level.Show(w) // an error only means that the client has gone
}

// setLogLevel changes the level from which on this process logs, until the process ends, and records who did so.
func (s *httpServer) setLogLevel(w http.ResponseWriter, r *http.Request) {
	err := errNoLogLevel
	wanted, kind := r.URL.Query().Get("level"), api.Unsupported
	if s.config.Log.Level != nil {
		err, kind = s.config.Log.Level.Set(wanted), api.Invalid
	}
	if err != nil {
		err = api.E("master.log-level", kind, s.config.ID, err)
	}
	s.guard.Done(r.Context(), structpb.NewStringValue(wanted), err)
	if err != nil {
		writeError(w, err)
		return
	}
	s.serveLogLevel(w, r)
}

func (s *httpServer) serve(listener net.Listener) error {
	if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *httpServer) stop(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close()
	}
	if s.page != nil {
		s.page.close()
	}
}

// paid serves a request only once its sender's allowance has room for it.
func (s *httpServer) paid(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if intake.SenderOf(r.Context()).Pay(r.Context(), intake.CallsExpense, intake.LookPrice) {
			handler.ServeHTTP(w, r)
		}
	})
}

// serveMetrics makes the page when it is this request's turn, and sends it afterwards, so that a slow reader delays
// nobody else.
func (s *httpServer) serveMetrics(text http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		by := intake.SenderOf(r.Context())
		later, read, err := intake.Answer(r.Context(), by, true, (*unsent).len, func() (*unsent, error) {
			later := &unsent{ResponseWriter: w, code: http.StatusOK}
			if !by.Pay(r.Context(), intake.CallsExpense, intake.LookPrice) || !s.intake.Reads.During(r.Context(), by, intake.ReadWeight, func() { text.ServeHTTP(later, r) }) {
				return nil, r.Context().Err() // the client has gone
			}
			by.Charge(intake.CallsExpense, intake.WholePrice)
			return later, nil
		})
		defer read()
		if err != nil {
			writeError(w, err)
			return
		}
		w.WriteHeader(later.code)
		_, _ = w.Write(later.body.Bytes())
	}
}

// unsent holds a response until it is sent.
type unsent struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

func (p *unsent) len() int {
	if p == nil {
		return 0
	}
	return p.body.Len()
}

// WriteHeader stores the status code.
func (p *unsent) WriteHeader(code int) { p.code = code }

// Write stores the text.
func (p *unsent) Write(text []byte) (int, error) { return p.body.Write(text) }

func sentence(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text + "\n"))
}

func (s *httpServer) readyz(w http.ResponseWriter, r *http.Request) {
	ready, why := s.leading.ready()
	if ready && guard.CallerOf(r.Context()).Kind == rights.Nobody {
		why = "somebody leads"
	}
	if !ready {
		sentence(w, http.StatusServiceUnavailable, "not ready: "+why)
		return
	}
	sentence(w, http.StatusOK, "ok: "+why)
}
