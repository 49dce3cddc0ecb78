package fetch_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/tenderhq/tender/agent/fetch"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/testing/freeports"
)

// TestIsAway: what fails because nobody answers, or not now, is told from what would fail again.
func TestIsAway(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/half":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "half of it")
		case "/nothing":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				err = conn.Close()
			}
			if err != nil {
				t.Error(err)
			}
		case "/other":
			fmt.Fprint(w, "something else")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	for source, want := range map[string]bool{
		server.URL + "/busy": true, server.URL + "/half": true, server.URL + "/nothing": true, server.URL + "/none": false, server.URL + "/other": false,
		fmt.Sprintf("http://127.0.0.1:%d/", freeports.ReserveOne(t)): true, "/no/such/file": false,
	} {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		err = fetch.Fetcher{}.Fetch(t.Context(), root, []api.URI{{Source: source, Name: "file", SHA256: strings.Repeat("0", 64)}})
		root.Close()
		if err == nil || fetch.IsAway(err) != want {
			t.Errorf("%s: %v; want that it is away to be %v", source, err, want)
		}
	}
	if fetch.IsAway(io.ErrUnexpectedEOF) {
		t.Error("an archive that is cut off is away")
	}
}
