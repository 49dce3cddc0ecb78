package cli_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// TestAPersonLooksWithABrowser uses real sockets. The browser trusts the cluster by what 'tender ca show' prints, shows
// a token once, and after that only a cookie, which is of no use where programs ask.
func TestAPersonLooksWithABrowser(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	address := c.http[0]
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(c.must("ca", "show"))) {
		t.Fatal("'ca show' prints no certificate")
	}
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	type shown struct {
		code    int
		text    string
		cookies []*http.Cookie
	}
	ask := func(request *http.Request) shown {
		t.Helper()
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return shown{response.StatusCode, string(text), response.Cookies()}
	}
	requestFor := func(method, path, body string) *http.Request {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "https://"+address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return request
	}
	token := c.must("token", "create", "operator", "--principal", "ann", "--uses", "1")
	logIn := func() shown {
		login := requestFor(http.MethodPost, "/login", url.Values{"token": {token}}.Encode())
		login.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		login.Header.Set("Origin", "https://"+address)
		return ask(login)
	}
	in := logIn()
	if in.code != http.StatusSeeOther || len(in.cookies) != 1 {
		t.Fatalf("the login is answered with %d, %v", in.code, in.cookies)
	}
	if again := logIn(); again.code != http.StatusForbidden || len(again.cookies) > 0 {
		t.Errorf("a second login by a token of one use is answered with %d", again.code)
	}
	for path, want := range map[string]string{"/": "ann", "/agents": "There are no agents", "/tasks": "There are no tasks"} {
		if stranger := ask(requestFor(http.MethodGet, path, "")); stranger.code == http.StatusOK {
			t.Errorf("%s shows a stranger %s", path, stranger.text)
		}
		request := requestFor(http.MethodGet, path, "")
		request.AddCookie(in.cookies[0])
		if seen := ask(request); seen.code != http.StatusOK || !strings.Contains(seen.text, want) {
			t.Errorf("%s is answered with %d %s", path, seen.code, seen.text)
		}
	}
	programs := requestFor(http.MethodGet, "/v1/WhoAmI", "")
	programs.AddCookie(in.cookies[0])
	if answer := ask(programs); answer.code != http.StatusForbidden {
		t.Errorf("by a cookie a program is answered with %d %s", answer.code, answer.text)
	}
}

// TestOnlyTheLinkLetsIn: who reaches the port of 'tender ui' gets in by a link that is printed, and each of them is of use
// once. A master that is told to serve no page serves none; 'tender ui' needs none of it.
func TestOnlyTheLinkLetsIn(t *testing.T) {
	t.Parallel()
	c := startTrustedWith(t, "--ui=false")
	master := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	for _, path := range []string{"/", "/login", "/page.css"} {
		answer, err := master.Get("https://" + c.http[0] + path)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != http.StatusNotFound {
			t.Errorf("a master that serves no page answers %s with %d", path, answer.StatusCode)
		}
	}
	ui := launch(t, c.env, true, []string{"ui", "--no-open"})
	ui.await("Ctrl-C here ends it.")
	first := regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?code=\w+`).FindString(ui.stdout.String())
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(address string, cookies []*http.Cookie, host string) (int, string, []*http.Cookie) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, cookie := range cookies {
			request.AddCookie(cookie)
		}
		if host != "" {
			request.Host = host
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text), answer.Cookies()
	}
	root, _, _ := strings.Cut(first, "?")
	if code, _, _ := ask(root, nil, ""); code != http.StatusForbidden {
		t.Errorf("without a link one is answered with %d", code)
	}
	code, _, cookies := ask(first, nil, "")
	if code != http.StatusSeeOther || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("the link is answered with %d, %v", code, cookies)
	}
	if code, _, again := ask(first, nil, ""); code != http.StatusForbidden || len(again) > 0 {
		t.Errorf("the same link for another browser is answered with %d, %v", code, again)
	}
	if code, text, _ := ask(root+"agents", cookies, ""); code != http.StatusOK || !strings.Contains(text, "There are no agents") {
		t.Errorf("with the cookie one is shown %d %s", code, text)
	}
	if code, _, _ := ask(root, cookies, "evil.example"); code != http.StatusMisdirectedRequest {
		t.Errorf("under another name one is answered with %d", code)
	}
}
