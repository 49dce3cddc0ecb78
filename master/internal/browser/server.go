package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/web"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/intake"
	"github.com/tenderhq/tender/master/registry"
)

// Config is what the door needs.
type Config struct {
	Key trust.Key
	// LogIn counts a use of the token. It returns who logs in with it, and until when a certificate for them would be
	// valid.
	LogIn func(ctx context.Context, token trust.Token) (trust.Identity, time.Time, error)
	// Principals returns the registry's principals as this master knows them.
	Principals func() map[string]registry.Principal
	Metrics    prometheus.Registerer
	Log        zerolog.Logger
}

// Door lets people in by a token, and knows them by a cookie afterwards.
type Door struct {
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
	// linesPerSecond bounds the log lines about logins. All logins are counted.
	linesPerSecond = 16
)

// New makes the door.
func New(config Config) *Door {
	d := &Door{
		config: config, signer: signer{config.Key}, logins: make(chan struct{}, loginsMax),
		log: config.Log.Sample(&zerolog.BurstSampler{Burst: linesPerSecond, Period: time.Second}),
		tried: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tender_browser_logins_total", Help: "Tries to log in with a browser, by what came of them.",
		}, []string{"result"}),
	}
	config.Metrics.MustRegister(d.tried)
	return d
}

// Routes returns what the door itself serves, by pattern.
func (d *Door) Routes() map[string]http.Handler {
	return map[string]http.Handler{
		"GET /login":   onlyHTTPS(d.askForToken),
		"POST /login":  onlyHTTPS(d.logIn),
		"POST /logout": onlyHTTPS(d.logOut),
	}
}

// onlyHTTPS serves with the headers of every page, and with one that makes the browser connect to this host only by HTTPS
// for as long as a cookie may live, and no longer, because the host may serve others without HTTPS.
func onlyHTTPS(handler http.HandlerFunc) http.Handler {
	return web.WithHeaders(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", fmt.Sprintf("max-age=%d", int(sessionMax/time.Second)))
		handler(w, r)
	}))
}

// Refuse answers somebody who may not look. Whoever has not logged in is told nothing but where to do so.
func (d *Door) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	onlyHTTPS(func(w http.ResponseWriter, r *http.Request) {
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch known := wire.Error(err); {
		case trust.Of(r.Context()).Kind != trust.Nobody:
			http.SetCookie(w, d.signer.cookie("", 0)) // it counts for nothing any more
			web.Show(w, r, http.StatusForbidden, web.LoginPage(sentenceOf(known)))
		case reads && strings.Contains(r.Header.Get("Accept"), "text/html"):
			http.Redirect(w, r, "/login", http.StatusSeeOther)
		default:
			http.Error(w, "log in first, at /login", http.StatusForbidden)
		}
	}).ServeHTTP(w, r)
}

// Known tells the handler who the caller is, according to the cookie. Whoever shows a certificate is whom it names.
func (d *Door) Known(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if trust.Of(r.Context()).Kind == trust.Nobody {
			if one, known := d.sessionOf(r); known {
				who := trust.Identity{Cluster: d.config.Key.Cluster(), Kind: trust.Person, Name: one.principal}
				intake.SenderOf(r.Context()).BelongsTo(one.principal)
				ctx := guard.OfBrowser(trust.With(r.Context(), who))
				r = r.WithContext(web.WithViewer(ctx, web.Viewer{Name: one.principal, Until: one.ends, MayLogOut: true}))
			}
		}
		handler.ServeHTTP(w, r)
	})
}

// sessionOf returns the session of the request's cookie, if the cookie is valid: signed by a master of the cluster, not
// expired, and for a principal that was not created anew since. The guard checks whether the principal was revoked.
func (d *Door) sessionOf(r *http.Request) (session, bool) {
	cookie, err := r.Cookie(d.signer.cookieName())
	if err != nil {
		return session{}, false
	}
	one, err := d.signer.read(cookie.Value, time.Now())
	if err != nil || !d.config.Principals()[one.principal].Created.Equal(one.since) {
		return session{}, false
	}
	return one, true
}

// askForToken shows the login page.
func (d *Door) askForToken(w http.ResponseWriter, r *http.Request) {
	web.Show(w, r, http.StatusOK, web.LoginPage(""))
}

// logIn exchanges a token for a cookie.
func (d *Door) logIn(w http.ResponseWriter, r *http.Request) {
	who, ends, err := d.admit(w, r)
	result := "ok"
	if err != nil {
		result = wire.Error(err).Kind.String()
	}
	d.tried.WithLabelValues(result).Inc()
	if err != nil {
		d.log.Warn().Str("from", guard.From(r.Context())).Err(err).Msg("refused a login by browser")
		d.refuseLogin(w, r, err)
		return
	}
	now := time.Now()
	if latest := now.Add(sessionMax); ends.After(latest) {
		ends = latest
	}
	word, err := d.signer.word(session{who.Name, d.config.Principals()[who.Name].Created, ends}, now)
	if err != nil {
		http.Error(w, "the cookie could not be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	d.log.Info().Stringer("identity", who).Str("from", guard.From(r.Context())).Time("ends", ends).Msg("logged in with a browser")
	http.SetCookie(w, d.signer.cookie(word, ends.Sub(now)))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// refuseLogin shows the login page again, with the reason.
func (d *Door) refuseLogin(w http.ResponseWriter, r *http.Request, err error) {
	known := wire.Error(err)
	code := http.StatusServiceUnavailable
	switch known.Kind {
	case api.Invalid:
		code = http.StatusBadRequest
	case api.Denied:
		code = http.StatusForbidden
	case api.Limit:
		code = http.StatusTooManyRequests
		w.Header().Set("Retry-After", strconv.Itoa(int(guard.BusyRetry/time.Second)))
	default: // nobody leads, or the leader has just changed
	}
	web.Show(w, r, code, web.LoginPage(sentenceOf(known)))
}

// sentenceOf returns what is wrong as a sentence for people.
func sentenceOf(known *api.Error) string {
	if known.Err == nil {
		return known.Error()
	}
	return known.Err.Error()
}

// admit returns who logs in with the token in the request. The request is read whole before it takes one of the places
// for logins, so that a slow sender keeps no place.
func (d *Door) admit(w http.ResponseWriter, r *http.Request) (who trust.Identity, ends time.Time, err error) {
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
	case d.logins <- struct{}{}:
		defer func() { <-d.logins }()
	default:
		return who, ends, busy("too many log in at this master at the same time; come back in a moment")
	}
	return d.config.LogIn(r.Context(), token)
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
func (d *Door) logOut(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, d.signer.cookie("", 0))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
