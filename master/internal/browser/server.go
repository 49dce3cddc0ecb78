package browser

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/intake"
	"github.com/tenderhq/tender/master/registry"
)

// Config is what the pages need.
type Config struct {
	Key    trust.Key
	Holder *trust.Holder // has the certificate that is shown
	Guard  *guard.Guard
	// LogIn counts a use of the token. It returns who logs in with it, and until when a certificate for them would be
	// valid.
	LogIn func(ctx context.Context, token trust.Token) (trust.Identity, time.Time, error)
	// Principals returns the registry's principals as this master knows them.
	Principals func() map[string]registry.Principal
	// Ask makes a call of the operator's services for the caller in the context.
	Ask func(ctx context.Context, method string, request proto.Message) (proto.Message, error)
	// Read holds the read-only routes that the master has for programs too, by their patterns.
	Read map[string]http.Handler
	// Refuse writes an error as the response.
	Refuse  func(http.ResponseWriter, error)
	Master  api.MasterID
	Metrics prometheus.Registerer
	Log     zerolog.Logger
}

// Pages serves the pages for browsers.
type Pages struct {
	config Config
	signer signer
	logins chan struct{} // holds one entry for each login that is under way
	tried  *prometheus.CounterVec
	log    zerolog.Logger
}

const (
	// loginsMax bounds the logins that are under way at a master. One more is refused (Limit).
	loginsMax = 16
	// loginBytesMax bounds how many bytes of a login request are read.
	loginBytesMax = 4 << 10
	// HeaderBytesMax bounds the header of a request.
	HeaderBytesMax = 16 << 10
	// linesPerSecond bounds the log lines about logins. All logins are counted.
	linesPerSecond = 16
)

// New makes the pages.
func New(config Config) *Pages {
	p := &Pages{
		config: config, signer: signer{config.Key}, logins: make(chan struct{}, loginsMax),
		log: config.Log.Sample(&zerolog.BurstSampler{Burst: linesPerSecond, Period: time.Second}),
		tried: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tender_browser_logins_total", Help: "Tries to log in with a browser, by what came of them.",
		}, []string{"result"}),
	}
	config.Metrics.MustRegister(p.tried)
	return p
}

// Routes returns everything that is served, by the patterns that the table of rights names.
func (p *Pages) Routes() map[string]http.Handler {
	routes := map[string]http.Handler{
		"GET /login":   http.HandlerFunc(p.askForToken),
		"POST /login":  http.HandlerFunc(p.logIn),
		"POST /logout": http.HandlerFunc(p.logOut),
		"GET /{$}":     http.HandlerFunc(p.showCluster),
	}
	for pattern, handler := range p.config.Read { // order: irrelevant because they go into a map
		routes[pattern] = handler
	}
	return routes
}

// Handler serves the routes and checks each against its row of the table.
func (p *Pages) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range p.Routes() {
		mux.Handle(pattern, p.config.Guard.Route("browser "+pattern, handler, p.refuse))
	}
	mux.HandleFunc("/", p.nothing)
	// A page of another site must not act with its visitor's cookie.
	origins := http.NewCrossOriginProtection()
	return withHeaders(p.config.Holder.OwnHosts(origins.Handler(p.known(mux))))
}

var (
	errLogIn  = errors.New("log in first, at /login")
	errLooks  = errors.New("a browser's cookie lets one look and change nothing; the commands do (tender login)")
	errNoPage = errors.New("there is no such page")
)

// refuse writes a refusal. A caller who has not logged in is told where to do so, or is redirected there from the first
// page.
func (p *Pages) refuse(w http.ResponseWriter, r *http.Request, err error) {
	stranger := trust.Of(r.Context()).Kind == trust.Nobody
	switch {
	case stranger && r.URL.Path == "/":
		http.Redirect(w, r, "/login", http.StatusSeeOther)
	case stranger:
		p.config.Refuse(w, api.E("browser", api.Denied, "", errLogIn))
	default:
		p.config.Refuse(w, err)
	}
}

// nothing answers all other paths. A caller who has not logged in is not told whether a path exists.
func (p *Pages) nothing(w http.ResponseWriter, r *http.Request) {
	switch {
	case trust.Of(r.Context()).Kind == trust.Nobody:
		p.config.Refuse(w, api.E("browser", api.Denied, "", errLogIn))
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		p.config.Refuse(w, api.E("browser", api.Denied, r.Method, errLooks))
	default:
		p.config.Refuse(w, api.E("browser", api.NotFound, r.URL.Path, errNoPage))
	}
}

// known tells the handlers who the caller is, according to the cookie.
func (p *Pages) known(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if one, known := p.sessionOf(r); known {
			who := trust.Identity{Cluster: p.config.Key.Cluster(), Kind: trust.Person, Name: one.principal}
			intake.SenderOf(r.Context()).BelongsTo(one.principal)
			ctx := context.WithValue(guard.OfBrowser(trust.With(r.Context(), who)), sessionKey{}, one)
			r = r.WithContext(ctx)
		}
		handler.ServeHTTP(w, r)
	})
}

// sessionKey is the key under which the context of a request holds its session.
type sessionKey struct{}

// sessionOf returns the session of the request's cookie, if the cookie is valid: signed by a master of the cluster, not
// expired, and for a principal that was not created anew since. The guard checks whether the principal was revoked.
func (p *Pages) sessionOf(r *http.Request) (session, bool) {
	cookie, err := r.Cookie(p.signer.cookieName())
	if err != nil {
		return session{}, false
	}
	one, err := p.signer.read(cookie.Value, time.Now())
	if err != nil || !p.config.Principals()[one.principal].Created.Equal(one.since) {
		return session{}, false
	}
	return one, true
}

// askForToken shows the login page.
func (p *Pages) askForToken(w http.ResponseWriter, _ *http.Request) {
	p.render(w, http.StatusOK, loginPage{})
}

// logIn exchanges a token for a cookie.
func (p *Pages) logIn(w http.ResponseWriter, r *http.Request) {
	who, ends, err := p.admit(w, r)
	result := "ok"
	if err != nil {
		result = kindOf(err)
	}
	p.tried.WithLabelValues(result).Inc()
	if err != nil {
		p.log.Warn().Str("from", guard.From(r.Context())).Err(err).Msg("refused a login by browser")
		p.refuseLogin(w, err)
		return
	}
	now := time.Now()
	if latest := now.Add(sessionMax); ends.After(latest) {
		ends = latest
	}
	word, err := p.signer.word(session{who.Name, p.config.Principals()[who.Name].Created, ends}, now)
	if err != nil {
		p.config.Refuse(w, err)
		return
	}
	p.log.Info().Stringer("identity", who).Str("from", guard.From(r.Context())).Time("ends", ends).Msg("logged in with a browser")
	http.SetCookie(w, p.signer.cookie(word, ends.Sub(now)))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// admit returns who logs in with the token in the request. The request is read whole before it takes one of the places
// for logins, so that a slow sender keeps no place.
func (p *Pages) admit(w http.ResponseWriter, r *http.Request) (who trust.Identity, ends time.Time, err error) {
	token, err := readToken(w, r)
	if err != nil {
		return who, ends, err
	}
	busy := func(why string) error {
		return api.E(loginOp, api.Limit, "", errors.New(why)).RetryIn(guard.BusyRetry)
	}
	if _, may := intake.SenderOf(r.Context()).PayForSession(r.Context(), 1); !may {
		return who, ends, busy("too many have tried to log in from this address; come back in a moment")
	}
	select {
	case p.logins <- struct{}{}:
		defer func() { <-p.logins }()
	default:
		return who, ends, busy("too many log in at this master at the same time; come back in a moment")
	}
	return p.config.LogIn(r.Context(), token)
}

const loginOp = "browser.login"

// readToken reads the form of the login page.
func readToken(w http.ResponseWriter, r *http.Request) (trust.Token, error) {
	r.Body = http.MaxBytesReader(w, r.Body, loginBytesMax)
	if err := r.ParseForm(); err != nil {
		return trust.Token{}, api.E(loginOp, api.Invalid, "", errors.New("this is no token, or far too long for one"))
	}
	text := r.PostForm.Get("token")
	if strings.TrimSpace(text) == "" {
		return trust.Token{}, api.E(loginOp, api.Invalid, "", errors.New("no token was given; an operator makes one: tender token create operator --principal NAME"))
	}
	return trust.ParseToken(text)
}

// logOut deletes the cookie.
func (p *Pages) logOut(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, p.signer.cookie("", 0))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
