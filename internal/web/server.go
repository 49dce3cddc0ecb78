package web

import (
	"bytes"
	"context"
	"embed"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/a-h/templ"
	"google.golang.org/grpc"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

// Config says whose cluster the page shows.
type Config struct {
	// Cluster makes calls of the services for people. It makes them in the name of the person whom the context of the
	// request names.
	Cluster grpc.ClientConnInterface
	// Agents opens connections to agents, for outputs of tasks.
	Agents func(ctx context.Context, address string) (net.Conn, error)
	// Clock returns the time. Default: time.Now.
	Clock func() time.Time
}

// Viewer is the person for whom a request is served.
type Viewer struct {
	// Name is what the person is called. Empty: the cluster asks nobody who they are.
	Name string
	// Until is when the person has to log in again. Zero: never.
	Until time.Time
	// MayLogOut says that there is something to log out of, at POST /logout.
	MayLogOut bool
}

type viewerKey struct{}

// WithViewer returns the context of a request that is served for the person.
func WithViewer(ctx context.Context, viewer Viewer) context.Context {
	return context.WithValue(ctx, viewerKey{}, viewer)
}

func viewerOf(ctx context.Context) Viewer {
	viewer, _ := ctx.Value(viewerKey{}).(Viewer)
	return viewer
}

// Server is the page.
type Server struct {
	// ending ends when the page is no longer served, and with it the answers that last.
	ending context.Context
	// End ends the answers that last. It may be called more than once.
	End context.CancelFunc

	config   Config
	operator apiv1.OperatorServiceClient
	jobs     apiv1.JobServiceClient
	views    *http.ServeMux
	mirrors  mirrors
	commands commands       // inside tasks
	watching sync.WaitGroup // the watches of the mirrors
}

//go:embed page.css page.js terminal.js icon.svg
var files embed.FS

// Static are the paths of what every page needs and nobody has to log in for.
var Static = []string{"/page.css", "/page.js", "/terminal.js", "/icon.svg"}

// New makes the page.
func New(config Config) *Server {
	if config.Clock == nil {
		config.Clock = time.Now
	}
	s := &Server{
		config: config, views: http.NewServeMux(),
		operator: apiv1.NewOperatorServiceClient(config.Cluster), jobs: apiv1.NewJobServiceClient(config.Cluster),
	}
	s.mirrors = mirrors{by: make(map[string]*mirror), keys: make(map[string]string)}
	s.ending, s.End = context.WithCancel(context.Background())
	for _, route := range s.routes() {
		if route.view != nil {
			s.views.Handle(route.pattern, s.serve(route.view))
		}
	}
	return s
}

// route is an address of the page, as a pattern of http.ServeMux with its method: a view, or what answers in place of one.
type route struct {
	pattern string
	view    view
	answer  http.HandlerFunc
}

// routes are all addresses of the page but those of files that everybody may have.
func (s *Server) routes() []route {
	all := []route{
		{"GET /{$}", s.cluster, nil},
		{"GET /agents", s.agents, nil},
		{"GET /agents/{id}", s.agent, nil},
		{"GET /frameworks", s.frameworks, nil},
		{"GET /frameworks/{id}", s.framework, nil},
		{"GET /tasks", s.tasks, nil},
		{"GET /tasks/{framework}/{task}", s.task, nil},
		{"GET /tasks/{framework}/{task}/files", s.files, nil},
		{"GET /tasks/{framework}/{task}/file", nil, s.file},
		{"GET /tasks/{framework}/{task}/stdout", nil, s.output},
		{"GET /tasks/{framework}/{task}/stderr", nil, s.output},
		{"GET /usage", s.usage, nil},
		{"GET /usage.csv", nil, s.usageFile},
		{"GET /help", s.help, nil},
		{"GET /search", s.search, nil},
		{"GET /roles", s.roles, nil},
		{"GET /shares", s.shares, nil},
		{"GET /offers", s.offers, nil},
		{"GET /masters", s.masters, nil},
		{"GET /jobs", s.jobList, nil},
		{"GET /jobs/{name}", s.job, nil},
		{"GET /why", s.why, nil},
		{"GET /access", s.access, nil},
		{"GET /history", s.happened, nil},
		{"GET /events", nil, s.events},
		{"POST /exec/{id}", nil, s.command},
		{"POST /exec/{id}/keys", nil, s.keys},
		{"GET /", s.nothing, nil},
	}
	for _, action := range actions {
		all = append(all, route{"GET /do/" + action.name, action.ask(s), nil}, route{"POST /do/" + action.name, nil, s.act(action)})
	}
	return all
}

// Routes returns the patterns of all addresses of the page but [Static], each with its method, so that who guards and who
// tries them forgets none.
func Routes() (patterns []string) {
	for _, route := range new(Server).routes() {
		patterns = append(patterns, route.pattern)
	}
	return patterns
}

// Begin begins to read the state for a person who is about to look, so that the first look need not wait for it.
func (s *Server) Begin(ctx context.Context) {
	if _, _, leave, err := s.mirrored(ctx); err == nil { // else whoever looks is told why
		leave()
	}
}

// Handler serves the page at the root of its host. It refuses forms that another site makes a browser send.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, path := range Static {
		mux.Handle("GET "+path, Files())
	}
	for _, route := range s.routes() {
		if route.answer != nil {
			mux.HandleFunc(route.pattern, route.answer)
		}
	}
	mux.Handle("/", s.views)
	return WithHeaders(http.NewCrossOriginProtection().Handler(mux))
}

// Files serves the style, the script and the icon. Browsers ask for a newer version each time, because the files change
// with the program and not with their names.
func Files() http.Handler {
	return WithHeaders(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeFileFS(w, r, files, r.URL.Path)
	}))
}

// WithHeaders sets the headers of every answer: what may run and be loaded is only what this host serves in files of its
// own, nothing is framed, and nothing of it is told to other sites.
func WithHeaders(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
			"form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-store")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		handler.ServeHTTP(w, r)
	})
}

// view makes the page that is shown at an address.
type view func(*http.Request) (page, error)

// collectorKey is the key under which the context of a request holds the *page that takes the view, instead of showing
// it.
type collectorKey struct{}

// serve shows a view.
func (s *Server) serve(of view) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if when, asked := momentOf(r.URL.Query()); asked && when.After(s.config.Clock()) { // it has yet to come
			http.Redirect(w, r, track{path: r.URL.Path, query: r.URL.Query()}.now(), http.StatusSeeOther)
			return
		}
		ctx, shown := s.viewed(r, of)
		shown.head = s.head(ctx, shown)
		if collected, is := r.Context().Value(collectorKey{}).(*page); is {
			*collected = shown
			return
		}
		Show(w, r.WithContext(ctx), max(shown.code, http.StatusOK), layout(shown, r.URL))
	})
}

// viewed returns a view as the request's person may see it, and the context in which it was made.
func (s *Server) viewed(r *http.Request, of view) (context.Context, page) {
	ctx := r.Context()
	m, is := ctx.Value(mirrorKey{}).(*mirror) // of a tab
	if !is {
		looking, found, leave, err := s.mirrored(ctx)
		if err != nil {
			return ctx, failed(err)
		}
		defer leave()
		ctx, m = looking, found
	}
	_, past := momentOf(r.URL.Query())
	m.await(ctx, past)
	r = r.WithContext(ctx)
	ctx = s.then(r, m)
	shown, err := of(r.WithContext(ctx))
	if err != nil {
		shown = failed(err)
		shown.still = past
	}
	if one, _ := look(ctx); shown.code == 0 && !shown.still {
		shown.track = m.trackOf(r.URL, one, s.config.Clock(), s.accounted(ctx, m, r.URL.Query()))
		shown.ofThen(one.then)
	}
	return ctx, shown
}

// collect returns the view at an address as it is now.
func (s *Server) collect(ctx context.Context, at *url.URL) page {
	var shown page
	request := (&http.Request{Method: http.MethodGet, URL: at, Host: "", Header: http.Header{}}).WithContext(context.WithValue(ctx, collectorKey{}, &shown))
	s.views.ServeHTTP(discarded{http.Header{}}, request)
	return shown
}

// discarded takes what nobody reads.
type discarded struct{ header http.Header }

func (d discarded) Header() http.Header          { return d.header }
func (discarded) Write(text []byte) (int, error) { return len(text), nil }
func (discarded) WriteHeader(int)                {}

// Show writes a whole page, once all of it is made.
func Show(w http.ResponseWriter, r *http.Request, code int, body templ.Component) {
	var text bytes.Buffer
	if err := body.Render(r.Context(), &text); err != nil {
		http.Error(w, "the page could not be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(text.Bytes())
}

// failed is the page that says why there is no other.
func failed(err error) page {
	return page{
		title: "Not shown", code: wire.HTTPCode(wire.Error(err).Kind), why: sentenceOf(err),
		blocks: []block{{key: "why", title: "This can't be shown", body: sentences([]string{sentenceOf(err)}), wide: true}},
	}
}

// sentenceOf returns what is wrong as a sentence for people.
func sentenceOf(err error) string {
	known := wire.Error(err)
	if known.Err == nil {
		return known.Error()
	}
	return known.Err.Error()
}

// nothing is shown at addresses at which there is nothing.
func (s *Server) nothing(r *http.Request) (page, error) {
	return page{
		title: "No such page", code: http.StatusNotFound,
		blocks: []block{{key: "why", title: "There is no such page", body: sentences([]string{"There is nothing at " + r.URL.Path + "."}), wide: true}},
	}, nil
}
