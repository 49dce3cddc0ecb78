package taskhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/taskhttp"
)

// TestWrongQuestions: a wrong request is answered with what would be right, a missing thing with not found, and an
// agent that is stopping says so.
func TestWrongQuestions(t *testing.T) {
	empty := core.New(core.Config{}, nil)
	tries := []struct {
		path   string
		alive  bool
		status int
		says   string
	}{
		{"/logs/f/t/stdin", true, http.StatusBadRequest, "stdout or stderr"},
		{"/logs/f/t/stdout?offset=x", true, http.StatusBadRequest, "offset=x is no offset; write a whole number"},
		{"/logs/f/t/stdout?lines=-1", true, http.StatusBadRequest, "lines=-1 is no number of lines; write 0 or more"},
		{"/logs/f/t/stderr?since=noon", true, http.StatusBadRequest, "since=noon is no time; write one such as 90s"},
		{"/logs/f/t/stderr", true, http.StatusNotFound, "no such task"},
		{"/logs/f/t/stderr", false, http.StatusServiceUnavailable, "stopping"},
		{"/output/f/t?stdout=0&stdout.lines=many", true, http.StatusBadRequest, "stdout.lines=many is no number of lines"},
		{"/output/f/t?stdout=0", true, http.StatusNotFound, "no such task"},
		{"/files/f/t/a", true, http.StatusNotFound, "no such task"},
		{"/files/f/t/a", false, http.StatusServiceUnavailable, "stopping"},
	}
	for _, try := range tries {
		server := taskhttp.Server{
			Ask: func(_ context.Context, look func(*core.Core)) bool {
				if try.alive {
					look(empty)
				}
				return try.alive
			},
			Readers: new(taskhttp.Readers),
		}
		mux := http.NewServeMux()
		mux.HandleFunc("GET /logs/{framework}/{task}/{stream}", server.Logs)
		mux.HandleFunc("GET /output/{framework}/{task}", server.Output)
		mux.HandleFunc("GET /files/{framework}/{task}/{path...}", server.Files)
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, try.path, nil))
		if answer.Code != try.status || !strings.Contains(answer.Body.String(), try.says) {
			t.Errorf("%s: %d %s; want %d and %q", try.path, answer.Code, answer.Body, try.status, try.says)
		}
	}
}
