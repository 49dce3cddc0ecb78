package cli_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// TestAPersonLooksWithABrowser uses real sockets. The browser trusts the cluster by what 'tender ca show' prints, shows
// a token once, and after that only a cookie. The port for programs does not accept the cookie.
func TestAPersonLooksWithABrowser(t *testing.T) {
	address := "127.0.0.1:" + strconv.Itoa(freePort(t))
	c := startTrustedWith(t, "--browser", address)
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
	for path, want := range map[string]string{"/": "ann", "/v1/WhoAmI": `"ann"`, "/v1/ListAgents": "{"} {
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
	programs.URL.Host = c.http[0]
	programs.AddCookie(in.cookies[0])
	if answer, err := client.Do(programs); err == nil {
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("by a cookie the port for programs answers %s", answer.Status)
		}
	}
}

// TestABrowserIsNoUseWithoutCertificates: the flag is refused with a sentence.
func TestABrowserIsNoUseWithoutCertificates(t *testing.T) {
	_, stderr, code := tender(t, nil, "master", "--data-dir", t.TempDir(), "--insecure", "--browser", "127.0.0.1:0")
	if code != 2 || !strings.Contains(stderr, "--insecure and --browser exclude each other") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
