package master_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"html"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/testing/memnet"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master"
)

// lobby is masters with certificates at which people log in with a browser, inside a synctest bubble.
type lobby struct {
	*abroad
	key      trust.Key
	operator apiv1.OperatorServiceClient // of the first operator
}

// inLobby runs a test with n masters, host1 and so on, one of which leads.
func inLobby(t *testing.T, n int, lives trust.Lives, test func(*testing.T, *lobby)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lobby{abroad: &abroad{house: &house{t: t, net: memnet.New(), masters: map[api.MasterID]*running{}}}, key: trust.NewKey()}
		defer l.close()
		var peers []master.Peer
		for i := range n {
			peers = append(peers, master.Peer{ID: api.MasterID(fmt.Sprint("m", i+1)), Addr: fmt.Sprintf("host%d:5070", i+1)})
		}
		for i, peer := range peers {
			host := fmt.Sprint("host", i+1)
			l.start(master.Config{
				ID: peer.ID, Memory: master.NewMemory(), Peers: peers, GRPC: host + ":5060", HTTP: host + ":5050", Raft: host + ":5070",
				Listen: l.net.Listen, Dial: l.net.From(host).Dial, Trust: master.Trust{Key: l.key, Lives: lives}, Version: "test",
			})
		}
		conn := l.member("admin", l.leader().GRPCAddr())
		defer conn.Close()
		l.operator = apiv1.NewOperatorServiceClient(conn)
		for { // until the first operator may do something
			if code := l.metrics("admin", "host1:5050"); code == http.StatusForbidden {
				t.Fatal("a cluster that is being founded refuses its metrics for good") // (R66)
			}
			_, err := l.operator.ListTokens(t.Context(), &apiv1.ListTokensRequest{})
			if err == nil {
				break
			}
			if kind := wire.Error(err).Kind; kind != api.Unavailable && kind != api.NotLeader {
				t.Fatalf("a cluster that is being founded refuses for good: %v", err) // (R66)
			}
			<-time.After(10 * time.Millisecond) // in the bubble's time
		}
		test(t, l)
	})
}

// TestNobodyIsRefusedForGoodWhileItIsFounded: until the first operator's token and grant are in the registry, whoever
// comes is asked to come again, because nobody has been granted anything yet. (R66)
func TestNobodyIsRefusedForGoodWhileItIsFounded(t *testing.T) {
	for _, masters := range []int{1, 3} {
		inLobby(t, masters, trust.Lives{}, func(t *testing.T, l *lobby) {
			nobody := l.member("nobody", l.leader().GRPCAddr())
			defer nobody.Close()
			_, err := apiv1.NewOperatorServiceClient(nobody).ListTokens(t.Context(), &apiv1.ListTokensRequest{})
			for ; wire.Error(err).Kind == api.Unavailable; <-time.After(10 * time.Millisecond) { // the first operator's token comes in a moment
				_, err = apiv1.NewOperatorServiceClient(nobody).ListTokens(t.Context(), &apiv1.ListTokensRequest{})
			}
			if wire.Error(err).Kind != api.Denied {
				t.Errorf("once it is founded, who was granted nothing is told %v", err)
			}
		})
	}
}

// member connects by gRPC as a person.
func (l *lobby) member(name, address string) *grpc.ClientConn {
	l.t.Helper()
	holder := l.holderOf(l.key, trust.Identity{Kind: trust.Person, Name: name})
	conn, err := transport.Connect(address, holder.Dialer(l.net.From("client").Dial))
	if err != nil {
		l.t.Fatal(err)
	}
	return conn
}

// token makes one of an operator.
func (l *lobby) token(principal string, uses uint64, ttl time.Duration) string {
	l.t.Helper()
	request := &apiv1.CreateTokenRequest{Kind: "operator", Principal: principal, Uses: uses}
	if ttl > 0 {
		request.Ttl = durationpb.New(ttl)
	}
	answer, err := l.operator.CreateToken(l.t.Context(), request)
	if err != nil {
		l.t.Fatal(err)
	}
	return answer.GetToken()
}

// restrict lets a principal have these grants alone.
func (l *lobby) restrict(principal string, grants ...*apiv1.PrincipalGrant) {
	l.t.Helper()
	for _, grant := range grants {
		if _, err := l.operator.Grant(l.t.Context(), &apiv1.GrantRequest{Principal: principal, Grant: grant}); err != nil {
			l.t.Fatal(err)
		}
	}
}

// page is what a browser asks for.
type page struct {
	host, method, path string // default: host1, GET
	cookie             *http.Cookie
	form               url.Values
	header             map[string]string // "Host" is the request's
}

// shown is what it is answered.
type shown struct {
	code    int
	text    string
	header  http.Header
	cookies []*http.Cookie
}

// browse asks by TLS as a browser does that knows the cluster's authority and has no certificate, and looks at what every answer
// must have.
func (l *lobby) browse(p page) shown {
	l.t.Helper()
	answer, err := l.tryToBrowse(p)
	if err != nil {
		l.t.Fatal(err)
	}
	if p.header["Host"] != "" || answer.header.Get("Content-Type") == "application/json" || answer.code == http.StatusForbidden && p.header != nil {
		return answer // refused before it came to the page
	}
	for name, part := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Referrer-Policy":            "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := answer.header.Get(name); !strings.HasPrefix(got, part) {
			l.t.Errorf("%s %s is answered with %s %q", p.method, p.path, name, got)
		}
	}
	return answer
}

func (l *lobby) tryToBrowse(p page) (shown, error) {
	l.t.Helper()
	if p.host == "" {
		p.host = "host1"
	}
	if p.method == "" {
		p.method = http.MethodGet
	}
	authority, err := l.key.Authority()
	if err != nil {
		l.t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: p.host}
	config.RootCAs.AddCert(authority.Anchors().Root)
	client := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DialTLSContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			conn, err := l.net.From("laptop").Dial(ctx, address)
			if err != nil {
				return nil, err
			}
			return tls.Client(conn, config), nil
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	var body io.Reader
	if p.form != nil {
		body = strings.NewReader(p.form.Encode())
	}
	request, err := http.NewRequestWithContext(l.t.Context(), p.method, "https://"+p.host+":5050"+p.path, body)
	if err != nil {
		l.t.Fatal(err)
	}
	if p.form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", "https://"+p.host+":5050")
	}
	request.Header.Set("Accept", "text/html,*/*;q=0.8")
	for name, value := range p.header { // order: irrelevant because each is set once
		request.Header.Set(name, value)
	}
	if host := p.header["Host"]; host != "" {
		request.Host = host
	}
	if p.cookie != nil {
		request.AddCookie(&http.Cookie{Name: p.cookie.Name, Value: p.cookie.Value})
	}
	response, err := client.Do(request)
	if err != nil {
		return shown{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return shown{response.StatusCode, string(text), response.Header, response.Cookies()}, err
}

// logIn is the answer to a token.
func (l *lobby) logIn(host, token string) shown {
	l.t.Helper()
	return l.browse(page{host: host, method: http.MethodPost, path: "/login", form: url.Values{"token": {token}}})
}

// cookieOf logs in, and returns the cookie.
func (l *lobby) cookieOf(host, token string) *http.Cookie {
	l.t.Helper()
	answer := l.logIn(host, token)
	if answer.code != http.StatusSeeOther || answer.header.Get("Location") != "/" || len(answer.cookies) != 1 {
		l.t.Fatalf("the login is answered with %d, %v: %s", answer.code, answer.cookies, answer.text)
	}
	return answer.cookies[0]
}

// isIn says whether a cookie counts at a master.
func (l *lobby) isIn(host string, cookie *http.Cookie) bool {
	l.t.Helper()
	return l.browse(page{host: host, path: "/", cookie: cookie}).code == http.StatusOK
}

// TestWhoHasNotLoggedInGetsTheLoginPageAlone at every address of the page, and at those that there are not.
func TestWhoHasNotLoggedInGetsTheLoginPageAlone(t *testing.T) {
	inLobby(t, 1, trust.Lives{}, func(t *testing.T, l *lobby) {
		for _, path := range []string{"/", "/tasks", "/agents/agent-1", "/events?at=/tasks", "/tasks/f/t/stdout", "/do/kill", "/login/", "/nothing"} {
			answer := l.browse(page{path: path})
			if answer.code != http.StatusSeeOther || answer.header.Get("Location") != "/login" {
				t.Errorf("%s is answered with %d %v %s", path, answer.code, answer.header, answer.text)
			}
			for _, secret := range []string{"host1:5060", "m1", string(l.masters["m1"].Cluster())} {
				if strings.Contains(answer.text, secret) {
					t.Errorf("%s tells a stranger of %s: %s", path, secret, answer.text)
				}
			}
		}
		login := l.browse(page{path: "/login"})
		if login.code != http.StatusOK || !strings.Contains(login.text, `<form method="post" action="/login">`) || login.header.Get("Strict-Transport-Security") != "max-age=43200" {
			t.Errorf("the login page is %d %s", login.code, login.text)
		}
		for _, method := range []string{"POST", "PUT", "DELETE"} {
			for _, path := range []string{"/do/kill", "/nothing"} {
				if answer := l.browse(page{method: method, path: path, form: url.Values{}}); answer.code != http.StatusForbidden {
					t.Errorf("%s %s is answered with %d %s", method, path, answer.code, answer.text)
				}
			}
		}
		if answer := l.browse(page{method: http.MethodPost, path: "/login", form: url.Values{}}); answer.code != http.StatusBadRequest || len(answer.cookies) > 0 {
			t.Errorf("a login without a token is answered with %d, %v", answer.code, answer.cookies)
		}
		for _, path := range []string{"/page.css", "/page.js", "/icon.svg"} {
			if answer := l.browse(page{path: path}); answer.code != http.StatusOK {
				t.Errorf("%s is answered with %d", path, answer.code)
			}
		}
	})
}

// TestACookieIsOfThePageAlone: what programs ask for is not told to a cookie, and none of it is done.
func TestACookieIsOfThePageAlone(t *testing.T) {
	inLobby(t, 1, trust.Lives{}, func(t *testing.T, l *lobby) {
		l.restrict("boss", &apiv1.PrincipalGrant{Verb: string(rights.Admin)})
		cookie := l.cookieOf("host1", l.token("boss", 0, 0))
		for _, path := range []string{"/v1/WhoAmI", "/v1/ListAgents", "/v1/ListTokens", "/metrics", "/debug/pprof/", "/v1/log-level"} {
			if answer, err := l.tryToBrowse(page{path: path, cookie: cookie}); err != nil || answer.code != http.StatusForbidden {
				t.Errorf("%s is answered with %d, %v: %s", path, answer.code, err, answer.text)
			}
		}
		change := page{
			method: http.MethodPost, path: "/v1/KillTask", cookie: cookie, form: url.Values{}, header: map[string]string{"Content-Type": "application/json"},
		}
		if answer := l.browse(change); answer.code != http.StatusForbidden {
			t.Errorf("a call that changes something is answered with %d %s", answer.code, answer.text)
		}
	})
}

// TestATokenLogsIn: as it lets in by gRPC, and once for each of its uses; and what comes of it no script and no other site has.
func TestATokenLogsIn(t *testing.T) {
	inLobby(t, 1, trust.Lives{}, func(t *testing.T, l *lobby) {
		once, short, revoked, ann := l.token("ann", 1, 0), l.token("ann", 0, time.Minute), l.token("ann", 0, 0), l.token("ann", 0, 0)
		framework, err := l.operator.CreateToken(t.Context(), &apiv1.CreateTokenRequest{Kind: "framework", Principal: "etl", Roles: []string{"eng"}})
		if err != nil {
			t.Fatal(err)
		}
		quorum, err := l.operator.CreateToken(t.Context(), &apiv1.CreateTokenRequest{Kind: "master"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.operator.RevokeToken(t.Context(), &apiv1.RevokeTokenRequest{Id: strings.Split(revoked, "_")[2]}); err != nil {
			t.Fatal(err)
		}
		cookie := l.cookieOf("host1", once)
		if cookie.Name != "__Host-tender-"+l.key.Cluster() || !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteStrictMode ||
			cookie.Path != "/" || cookie.Domain != "" || cookie.MaxAge < 43190 || cookie.MaxAge > 43200 || strings.Contains(cookie.Raw, once[len(once)-20:]) {
			t.Errorf("the cookie is %s", cookie.Raw)
		}
		if !l.isIn("host1", cookie) {
			t.Error("the cookie does not count")
		}
		first, err := l.key.FirstToken()
		if err != nil {
			t.Fatal(err)
		}
		foreign, err := trust.NewKey().FirstToken()
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{first.String(), "  " + ann + "\n", short} {
			l.cookieOf("host1", word)
		}
		<-time.After(2 * time.Minute) // in the bubble's time
		for what, test := range map[string]struct {
			token string
			code  int
			says  string
		}{
			"spent":                {once, 403, "all its uses (1) are used up"},
			"expired":              {short, 403, "it has expired"},
			"revoked":              {revoked, 403, "it was revoked"},
			"with a wrong secret":  {ann[:len(ann)-1] + map[bool]string{true: "b", false: "a"}[strings.HasSuffix(ann, "a")], 403, "no such token lets anybody in"},
			"of another cluster":   {foreign.String(), 403, "no such token lets anybody in"},
			"of a framework":       {framework.GetToken(), 403, "is that of a framework"},
			"of a master":          {quorum.GetToken(), 403, "is that of a master"},
			"of another authority": {strings.Replace(ann, strings.Split(ann, "_")[1], strings.Split(foreign.String(), "_")[1], 1), 403, "an authority that counts no more"},
			"no token":             {"<script>alert(1)</script>", 400, "this is no token"},
			"nothing":              {"", 400, "no token was given"},
			"too long":             {strings.Repeat("x", 8<<10), 400, "far too long"},
		} {
			answer := l.logIn("host1", test.token)
			said := strings.ReplaceAll(answer.text, "&#39;", "'")
			if answer.code != test.code || len(answer.cookies) > 0 || !strings.Contains(said, test.says) || strings.Contains(said, "<script") {
				t.Errorf("a token %s is answered with %d, %v: %s", what, answer.code, answer.cookies, answer.text)
			}
		}
		for _, item := range l.tokens() {
			if used := item.GetUses(); item.GetKind() == "master" && used != 0 || item.GetKind() == "operator" && item.GetUsesMax() == 1 && used != 1 {
				t.Errorf("token %v has been used %d times", item, used)
			}
		}
	})
}

func (l *lobby) tokens() []*apiv1.TokenView {
	l.t.Helper()
	list, err := l.operator.ListTokens(l.t.Context(), &apiv1.ListTokensRequest{})
	if err != nil {
		l.t.Fatal(err)
	}
	return list.GetItems()
}

// TestACookieEnds: no later than a certificate of that day, at once when its principal is revoked or one logs out; and what no
// master has signed counts nowhere.
func TestACookieEnds(t *testing.T) {
	inLobby(t, 1, trust.Lives{Others: 10 * time.Minute}, func(t *testing.T, l *lobby) {
		ann := l.token("ann", 0, 0)
		cookie, bob := l.cookieOf("host1", ann), l.cookieOf("host1", l.token("bob", 0, 0))
		if cookie.MaxAge > 600 {
			t.Errorf("a certificate lives for ten minutes, and the cookie for %d s", cookie.MaxAge)
		}
		for name, value := range map[string]string{
			"cut off":                   cookie.Value[:len(cookie.Value)-4],
			"with a changed name":       swapped(cookie.Value, bob.Value, 1),
			"with another signature":    swapped(cookie.Value, bob.Value, 2),
			"without a signature":       cookie.Value[:strings.LastIndexByte(cookie.Value, '.')+1],
			"too long":                  cookie.Value + strings.Repeat("A", 4<<10),
			"of another cluster":        l.foreignCookie(),
			"a token instead of it":     ann,
			"the name of the principal": "ann",
		} {
			if l.isIn("host1", &http.Cookie{Name: cookie.Name, Value: value}) {
				t.Errorf("a cookie %s counts", name)
			}
		}
		if _, err := l.operator.Revoke(t.Context(), &apiv1.RevokeRequest{Principal: "bob", Why: "it leaked"}); err != nil {
			t.Fatal(err)
		}
		if answer := l.browse(page{path: "/", cookie: bob}); answer.code != http.StatusForbidden || !strings.Contains(answer.text, "it leaked") {
			t.Errorf("a revoked principal is answered with %d %s", answer.code, answer.text)
		}
		if !l.isIn("host1", cookie) {
			t.Error("the cookie of another one has ended with it")
		}
		out := l.browse(page{method: http.MethodPost, path: "/logout", cookie: cookie, form: url.Values{}})
		if out.code != http.StatusSeeOther || len(out.cookies) != 1 || out.cookies[0].Name != cookie.Name || out.cookies[0].MaxAge != -1 || out.cookies[0].Value != "" {
			t.Errorf("the logout is answered with %d, %v", out.code, out.cookies)
		}
		<-time.After(9 * time.Minute) // in the bubble's time
		if !l.isIn("host1", cookie) {
			t.Error("it has ended too early")
		}
		<-time.After(time.Minute)
		if l.isIn("host1", cookie) {
			t.Error("it counts after its end")
		}
	})
}

// swapped is a word with a part of another one.
func swapped(word, other string, part int) string {
	parts := strings.Split(word, ".")
	parts[part] = strings.Split(other, ".")[part]
	return strings.Join(parts, ".")
}

// foreignCookie is what a master of another cluster has signed for an operator of the same name.
func (l *lobby) foreignCookie() string {
	l.t.Helper()
	other := &lobby{abroad: &abroad{house: &house{t: l.t, net: memnet.New(), masters: map[api.MasterID]*running{}}}, key: trust.NewKey()}
	defer other.close()
	other.start(master.Config{
		ID: "m1", Memory: master.NewMemory(), GRPC: "host1:5060", HTTP: "host1:5050", Raft: "host1:5070",
		Listen: other.net.Listen, Dial: other.net.From("host1").Dial, Trust: master.Trust{Key: other.key}, Version: "test",
	})
	first, err := other.key.FirstToken()
	if err != nil {
		l.t.Fatal(err)
	}
	for {
		if answer := other.logIn("host1", first.String()); answer.code == http.StatusSeeOther {
			return answer.cookies[0].Value
		}
		<-time.After(time.Second) // until the token is there
	}
}

// TestAnotherSiteHasNoUseOfACookie: neither with a form of its own, nor with a host name that it makes point here.
func TestAnotherSiteHasNoUseOfACookie(t *testing.T) {
	inLobby(t, 1, trust.Lives{}, func(t *testing.T, l *lobby) {
		token := l.token("ann", 0, 0)
		cookie := l.cookieOf("host1", token)
		for name, test := range map[string]struct {
			path   string
			header map[string]string
			code   int
		}{
			"its own form":                     {"/logout", nil, 303},
			"its own, as browsers send it":     {"/logout", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "null"}, 303}, // with no-referrer
			"another site's form":              {"/logout", map[string]string{"Origin": "https://evil.example"}, 403},
			"another port's form":              {"/logout", map[string]string{"Origin": "https://host1:9000"}, 403},
			"a form that a browser says so of": {"/logout", map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
			"another site's login":             {"/login", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
			"a login of no origin":             {"/login", map[string]string{"Origin": "null"}, 403},
			"another name":                     {"/login", map[string]string{"Host": "evil.example:5050", "Origin": "https://evil.example:5050"}, 421},
			"a name of the certificate":        {"/login", map[string]string{"Host": "localhost:5050", "Origin": "https://localhost:5050"}, 303},
		} {
			answer := l.browse(page{method: http.MethodPost, path: test.path, cookie: cookie, form: url.Values{"token": {token}}, header: test.header})
			if answer.code != test.code || test.code != http.StatusSeeOther && len(answer.cookies) > 0 {
				t.Errorf("%s is answered with %d, %v: %s", name, answer.code, answer.cookies, answer.text)
			}
		}
		if answer := l.browse(page{path: "/", cookie: cookie, header: map[string]string{"Host": "evil.example"}}); answer.code != http.StatusMisdirectedRequest {
			t.Errorf("a page under another name is answered with %d %s", answer.code, answer.text)
		}
	})
}

// TestThePageShowsWhatItsPersonMaySee: the same rights as by gRPC, whoever has logged in.
func TestThePageShowsWhatItsPersonMaySee(t *testing.T) {
	inLobby(t, 1, trust.Lives{}, func(t *testing.T, l *lobby) {
		people := map[string]rights.Verb{"viewer": rights.View, "killer": "kill-task", "operator": rights.Operate, "boss": rights.Admin}
		for _, name := range slices.Sorted(maps.Keys(people)) {
			l.restrict(name, &apiv1.PrincipalGrant{Verb: string(people[name])})
			cookie := l.cookieOf("host1", l.token(name, 0, 0))
			for _, path := range []string{"/", "/agents", "/frameworks", "/tasks"} {
				answer := l.browse(page{path: path, cookie: cookie})
				denied := strings.Contains(html.UnescapeString(answer.text), "it needs the grant")
				if !strings.Contains(answer.text, name) || denied != (name == "killer") || (answer.code == http.StatusOK) == (denied && path != "/") {
					t.Errorf("%s is shown at %s %d %s", name, path, answer.code, answer.text)
				}
			}
			if answer := l.browse(page{path: "/nothing", cookie: cookie}); answer.code != http.StatusNotFound {
				t.Errorf("what there is not is answered with %d", answer.code)
			}
		}
	})
}

// TestACookieCountsAtEveryMaster: also at one that follows, where one may log in as well, and after a failover.
func TestACookieCountsAtEveryMaster(t *testing.T) {
	inLobby(t, 3, trust.Lives{}, func(t *testing.T, l *lobby) {
		leads := l.leader()
		var follower string
		for id := range l.masters {
			if id != leads.ID() {
				follower = "host" + strings.TrimPrefix(string(id), "m")
			}
		}
		once := l.token("ann", 1, 0)
		synctest.Wait() // until the followers have heard of it
		<-time.After(time.Second)
		cookie := l.cookieOf(follower, once)
		if answer := l.logIn(follower, once); answer.code != http.StatusForbidden || !strings.Contains(answer.text, "used up") {
			t.Errorf("a spent token at a follower is answered with %d %s", answer.code, answer.text)
		}
		if answer := l.logIn("host"+strings.TrimPrefix(string(leads.ID()), "m"), once); answer.code != http.StatusForbidden {
			t.Errorf("a token that was spent at a follower is answered with %d", answer.code)
		}
		for id := range l.masters {
			host := "host" + strings.TrimPrefix(string(id), "m")
			if shown := l.browse(page{host: host, path: "/tasks", cookie: cookie}); shown.code != http.StatusOK || !strings.Contains(shown.text, "There are no tasks.") {
				t.Errorf("at %s it is answered with %d %s", host, shown.code, shown.text) // what only the leader knows
			}
		}
		l.stop(leads.ID())
		next := l.leader()
		if !l.isIn("host"+strings.TrimPrefix(string(next.ID()), "m"), cookie) {
			t.Error("it does not count after a failover")
		}
	})
}

// TestMastersAloneAskForOthers: in whose name the page of a follower asks, the leader believes of masters alone. (R72)
func TestMastersAloneAskForOthers(t *testing.T) {
	inLobby(t, 1, trust.Lives{}, func(t *testing.T, l *lobby) {
		l.restrict("boss", &apiv1.PrincipalGrant{Verb: string(rights.Admin)})
		ann := l.member("ann", l.leader().GRPCAddr())
		defer ann.Close()
		ctx := metadata.AppendToOutgoingContext(t.Context(), "tender-page-person-bin", "boss")
		who, err := apiv1.NewOperatorServiceClient(ann).WhoAmI(ctx, &apiv1.WhoAmIRequest{})
		if err != nil || who.GetName() != "ann" {
			t.Errorf("a person who says to be another one is %v, %v", who, err)
		}
		holder := l.holderOf(l.key, trust.Identity{Kind: trust.Master, Name: "m9"})
		conn, err := transport.Connect(l.leader().GRPCAddr(), holder.Dialer(l.net.From("client").Dial))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		operator := apiv1.NewOperatorServiceClient(conn)
		if who, err = operator.WhoAmI(ctx, &apiv1.WhoAmIRequest{}); err != nil || who.GetName() != "boss" || who.GetKind() != "person" {
			t.Errorf("for whom a master asks is %v, %v", who, err)
		}
		if _, err := operator.CreateToken(ctx, &apiv1.CreateTokenRequest{Kind: "operator", Principal: "eve"}); wire.Error(err).Kind != api.Denied {
			t.Errorf("what the page has no form for is answered with %v", err)
		}
	})
}

// TestTriesToLogInArePaced: somebody who guesses tokens from one address gets a number of tries at once, and a number
// per second after that. The tries are counted.
func TestTriesToLogInArePaced(t *testing.T) {
	inLobby(t, 1, trust.Lives{}, func(t *testing.T, l *lobby) {
		foreign, err := trust.NewKey().FirstToken()
		if err != nil {
			t.Fatal(err)
		}
		const tries, atOnce, perSecond = 320, 256, 64
		began := time.Now()
		for range tries {
			l.logIn("host1", foreign.String())
		}
		if took := time.Since(began); took < (tries-atOnce)*time.Second/perSecond-50*time.Millisecond {
			t.Errorf("%d tries took %v", tries, took)
		}
	})
}

// TestAPageCanBeLeftOut: nothing of it is served then.
func TestAPageCanBeLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lobby{abroad: &abroad{house: &house{t: t, net: memnet.New(), masters: map[api.MasterID]*running{}}}, key: trust.NewKey()}
		defer l.close()
		l.start(master.Config{
			ID: "m1", Memory: master.NewMemory(), GRPC: "host1:5060", HTTP: "host1:5050", Raft: "host1:5070", NoPage: true,
			Listen: l.net.Listen, Dial: l.net.From("host1").Dial, Trust: master.Trust{Key: l.key}, Version: "test",
		})
		for _, path := range []string{"/", "/login", "/page.css", "/tasks"} {
			if answer, err := l.tryToBrowse(page{path: path}); err != nil || answer.code != http.StatusNotFound {
				t.Errorf("%s is answered with %d, %v", path, answer.code, err)
			}
		}
	})
}
