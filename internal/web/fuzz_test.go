package web_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/tenderhq/tender/internal/web"
)

// FuzzRequest: whatever is asked for or sent in a form, it is answered, and nothing in the answer runs or leads elsewhere.
func FuzzRequest(f *testing.F) {
	for _, address := range append(views("x"), "/?at=1", "/events?at=/tasks", "/exec/1/keys?rows=2&columns=3", "/tasks/x/x/files?path=..") {
		of, query, _ := strings.Cut(address, "?")
		f.Add(address, "")
		f.Add(of, query)
	}
	page := web.New(web.Config{Cluster: answering("x"), Agents: func(context.Context, string) (net.Conn, error) { return nil, net.ErrClosed }})
	f.Cleanup(page.End)
	handler := page.Handler()
	f.Fuzz(func(t *testing.T, address, form string) {
		at, err := url.ParseRequestURI(address) // as a server does
		if err != nil {
			return
		}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if form != "" {
			request = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(form))
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		if request.URL = at; path.Clean("/"+at.Path) == "/events" { // a stream that ends with its reader
			ctx, end := context.WithCancel(t.Context())
			end()
			request = request.WithContext(ctx)
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Code >= http.StatusInternalServerError && answer.Code != http.StatusServiceUnavailable { // the agents are away
			t.Fatalf("answered %d: %s", answer.Code, answer.Body)
		}
		if to := answer.Header().Get("Location"); to != "" && !ours(to) {
			t.Errorf("it leads to %q", to)
		}
		if !strings.HasPrefix(answer.Header().Get("Content-Type"), "text/html") {
			return
		}
		document, err := html.Parse(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		for node := range document.Descendants() {
			if node.Type == html.ElementNode {
				checkElement(t, address, node)
			}
		}
	})
}
