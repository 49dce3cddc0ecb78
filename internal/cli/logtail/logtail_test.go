package logtail_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/cli/logtail"
)

// file is an agent that serves one growing file and can be made to break off.
type file struct {
	mu      sync.Mutex
	text    string
	breaks  []int         // lengths of the next answers, cut off in the middle
	refuse  int           // so many requests are refused first
	changed chan struct{} // closed and replaced with each change
	asked   []int64       // offsets
	ended   bool
}

func newFile() *file { return &file{changed: make(chan struct{})} }

func (f *file) edit(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/logs/framework-1/t.0/stdout" {
		http.NotFound(w, r)
		return
	}
	offset, _ := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64)
	f.mu.Lock()
	f.asked = append(f.asked, offset)
	if f.refuse > 0 {
		f.refuse--
		f.mu.Unlock()
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	f.mu.Unlock()
	w.WriteHeader(http.StatusOK)
	for {
		f.mu.Lock()
		rest, changed, ended, breaks := f.text[offset:], f.changed, f.ended, -1
		if len(f.breaks) > 0 && len(rest) > 0 {
			breaks, f.breaks = f.breaks[0], f.breaks[1:]
			rest = rest[:min(breaks, len(rest))]
		}
		f.mu.Unlock()
		fmt.Fprint(w, rest)
		w.(http.Flusher).Flush()
		offset += int64(len(rest))
		if breaks >= 0 {
			panic(http.ErrAbortHandler)
		}
		if ended || r.URL.Query().Get("follow") == "" {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func source(server *httptest.Server) *logtail.Source {
	return &logtail.Source{
		Task: api.TaskRef{Framework: "framework-1", Task: "t.0"}, Stream: logtail.Stdout,
		Address: func(context.Context) (string, error) { return strings.TrimPrefix(server.URL, "http://"), nil },
		HTTP:    server.Client(),
	}
}

// text is a writer that tells when it holds so much.
type text struct {
	mu sync.Mutex
	strings.Builder
	awaited int
	there   chan struct{}
}

func (t *text) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.Builder.Write(data)
	if t.there != nil && t.Len() >= t.awaited {
		close(t.there)
		t.there = nil
	}
	return n, err
}

func awaiting(n int) (*text, <-chan struct{}) {
	there := make(chan struct{})
	return &text{awaited: n, there: there}, there
}

func TestFollowThroughBreaksLosesAndRepeatsNothing(t *testing.T) {
	f := newFile()
	server := httptest.NewServer(f)
	defer server.Close()
	f.text = "0123456789"
	f.breaks = []int{3, 0, 2}
	f.refuse = 1
	out, there := awaiting(10)
	ended := make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- source(server).Follow(t.Context(), out, ended) }()
	<-there
	// The end comes with bytes that the open request was not told of.
	f.mu.Lock()
	f.text += "abc"
	f.mu.Unlock()
	close(ended)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "0123456789abc" {
		t.Errorf("got %q", got)
	}
	if fmt.Sprint(f.asked[:4]) != "[0 0 3 3]" {
		t.Errorf("asked for offsets %v", f.asked)
	}
}

func TestACleanEndOfAnAnswerIsNotTheEndOfTheTask(t *testing.T) {
	f := newFile()
	server := httptest.NewServer(f)
	defer server.Close()
	f.text, f.ended = "first", true // the agent goes down in good order
	out, there := awaiting(len("firstsecond"))
	ended := make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- source(server).Follow(t.Context(), out, ended) }()
	f.edit(func() { f.text += "second" })
	<-there
	close(ended)
	if err := <-done; err != nil || out.String() != "firstsecond" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	f := newFile()
	server := httptest.NewServer(f)
	defer server.Close()
	f.text = "x"
	out, there := awaiting(1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- source(server).Follow(ctx, out, make(chan struct{})) }()
	<-there
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestRestOfNothing(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	if err := source(server).Rest(t.Context(), &text{}); !errors.Is(err, logtail.ErrNone) {
		t.Errorf("got %v", err)
	}
}

func TestRestGivesUpWithAReason(t *testing.T) {
	f := newFile()
	f.refuse = 1 << 30
	server := httptest.NewServer(f)
	defer server.Close()
	s := source(server)
	s.Patience = time.Nanosecond
	err := s.Rest(t.Context(), &text{})
	if err == nil || !strings.Contains(err.Error(), "stdout of framework-1/t.0") || !strings.Contains(err.Error(), "busy") {
		t.Errorf("got %v", err)
	}
}

// A stopped agent takes connections and says nothing; the rest of a task's output is not worth waiting for ever.
func TestRestGivesUpOnASilentAgent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("offset") == "0" {
			fmt.Fprint(w, "some")
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	s, out := source(server), &text{}
	s.Patience, s.Silence = time.Nanosecond, 50*time.Millisecond
	err := s.Rest(t.Context(), out)
	if err == nil || !strings.Contains(err.Error(), "does not go on") || !strings.HasPrefix("some", out.String()) {
		t.Errorf("got %v, %q", err, out)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestAFailingWriterEndsTheFollowing(t *testing.T) {
	f := newFile()
	server := httptest.NewServer(f)
	defer server.Close()
	f.text = "x"
	err := source(server).Follow(t.Context(), full{}, make(chan struct{}))
	if err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("got %v", err)
	}
}
