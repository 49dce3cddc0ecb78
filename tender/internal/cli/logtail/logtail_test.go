package logtail_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/agent/tail"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/tender/internal/cli/logtail"
)

// file is an agent that serves one growing file and can be made to break off.
type file struct {
	mu      sync.Mutex
	text    string
	breaks  []int         // how long the next answers are, which are cut off
	refuse  int           // how many requests are refused first
	changed chan struct{} // closed and replaced with each change
	asked   []int64       // the offsets that were asked for
	ended   bool          // the task has ended
	down    bool          // the agent shuts down in order
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
	if r.URL.Path != "/v1/output/framework-1/t.0" {
		http.NotFound(w, r)
		return
	}
	offset, _ := strconv.ParseInt(r.URL.Query().Get("stdout"), 10, 64)
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
		rest, changed, ended, down, breaks := f.text[offset:], f.changed, f.ended, f.down, -1
		if len(f.breaks) > 0 && len(rest) > 0 {
			breaks, f.breaks = f.breaks[0], f.breaks[1:]
			rest = rest[:min(breaks, len(rest))]
		}
		f.mu.Unlock()
		frames := tail.Frames{To: w, Kind: tail.FrameStdout}
		_, _ = frames.Write([]byte(rest)) // a reader that went away asks again
		frames.Flush()
		offset += int64(len(rest))
		if breaks >= 0 {
			panic(http.ErrAbortHandler)
		}
		if down {
			return
		}
		if ended || r.URL.Query().Get("follow") == "" {
			_ = tail.WriteEnd(w) // as above
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func source(server *httptest.Server, to io.Writer) *logtail.Source {
	return &logtail.Source{
		Task: api.TaskRef{Framework: "framework-1", Task: "t.0"}, Outputs: []*logtail.Output{{Stream: logtail.Stdout, To: to}},
		Address: func(context.Context) (string, error) { return strings.TrimPrefix(server.URL, "http://"), nil },
		HTTP:    server.Client(),
	}
}

// text is a writer that signals when it has a certain length.
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
	go func() { done <- source(server, out).Follow(t.Context(), ended) }()
	<-there
	f.edit(func() { f.text, f.ended = f.text+"abc", true })
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
	f.text, f.down = "first", true
	out, there := awaiting(len("firstsecond"))
	ended := make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- source(server, out).Follow(t.Context(), ended) }()
	f.edit(func() { f.text += "second" })
	<-there
	f.edit(func() { f.down, f.ended = false, true })
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
	go func() { done <- source(server, out).Follow(ctx, make(chan struct{})) }()
	<-there
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestRestOfNothing(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no such task", http.StatusNotFound)
	}))
	defer server.Close()
	if err := source(server, &text{}).Rest(t.Context()); !errors.Is(err, logtail.ErrNone) {
		t.Errorf("got %v", err)
	}
}

// An agent of a version without this route does not count as an agent without output.
func TestRestOfAnOlderAgent(t *testing.T) {
	server := httptest.NewServer(http.NewServeMux())
	defer server.Close()
	s := source(server, &text{})
	s.Patience = time.Nanosecond
	if err := s.Rest(t.Context()); err == nil || errors.Is(err, logtail.ErrNone) {
		t.Errorf("got %v", err)
	}
}

func TestRestGivesUpWithAReason(t *testing.T) {
	f := newFile()
	f.refuse = 1 << 30
	server := httptest.NewServer(f)
	defer server.Close()
	s := source(server, &text{})
	s.Patience = time.Nanosecond
	err := s.Rest(t.Context())
	if err == nil || !strings.Contains(err.Error(), "stdout of framework-1/t.0") || !strings.Contains(err.Error(), "busy") {
		t.Errorf("got %v", err)
	}
}

// A stopped agent accepts connections and sends nothing. The rest of a task's output is not awaited for ever.
func TestRestGivesUpOnASilentAgent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("stdout") == "0" {
			frames := tail.Frames{To: w, Kind: tail.FrameStdout}
			_, _ = frames.Write([]byte("some")) // as above
			frames.Flush()
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	out := &text{}
	s := source(server, out)
	s.Patience, s.Silence = time.Nanosecond, 50*time.Millisecond
	err := s.Rest(t.Context())
	if err == nil || !strings.Contains(err.Error(), "does not go on") || !strings.HasPrefix("some", out.String()) {
		t.Errorf("got %v, %q", err, out)
	}
}

// The masters tell the end of a task. An agent that is stopped then does not block the follower for ever.
func TestFollowGivesUpOnAnAgentThatIsSilentAfterTheEnd(t *testing.T) {
	asked := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	s := source(server, &text{})
	s.Patience, s.Silence = time.Nanosecond, 50*time.Millisecond
	ended, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- s.Follow(t.Context(), ended) }()
	<-asked
	close(ended)
	if err := <-done; err == nil || !strings.Contains(err.Error(), "does not go on") {
		t.Errorf("got %v", err)
	}
}

// Both outputs come with one request, each from its own offset. What was written is not asked for again.
func TestBothOutputsByOneRequest(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		first := len(asked) == 1
		for kind, words := range map[byte][2]string{tail.FrameStdout: {"out", "put"}, tail.FrameStderr: {"err", "or"}} {
			word := words[1]
			if first {
				word = words[0]
			}
			_, _ = tail.Frames{To: w, Kind: kind}.Write([]byte(word)) // as above
		}
		if !first {
			_ = tail.WriteEnd(w) // as above
		}
	}))
	defer server.Close()
	out, err := &text{}, &text{}
	s := source(server, out)
	s.Outputs = append(s.Outputs, &logtail.Output{Stream: logtail.Stderr, To: err})
	if err := s.Follow(t.Context(), make(chan struct{})); err != nil {
		t.Fatal(err)
	}
	if out.String() != "output" || err.String() != "error" {
		t.Errorf("%q and %q", out, err)
	}
	if fmt.Sprint(asked) != "[follow=1&stderr=0&stdout=0 follow=1&stderr=3&stdout=3]" {
		t.Errorf("asked %v", asked)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestAFailingWriterEndsTheFollowing(t *testing.T) {
	f := newFile()
	server := httptest.NewServer(f)
	defer server.Close()
	f.text = "x"
	err := source(server, full{}).Follow(t.Context(), make(chan struct{}))
	if err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("got %v", err)
	}
}

// The outputs of a task's executor are asked for with executor=1.
func TestTheOutputOfAnExecutor(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		word := "the task's"
		if r.FormValue("executor") == "1" {
			word = "the executor's"
		}
		_, _ = tail.Frames{To: w, Kind: tail.FrameStdout}.Write([]byte(word)) // as above
		_ = tail.WriteEnd(w)                                                  // as above
	}))
	defer server.Close()
	out := &text{}
	s := source(server, out)
	s.Executor = true
	if err := s.Rest(t.Context()); err != nil || out.String() != "the executor's" {
		t.Errorf("%v, %q", err, out)
	}
}

// The agent says where the last lines begin, and what it does not keep any more. A reader that is cut off goes on from
// there, and only bytes that would have come next count as dropped.
func TestWhereAnOutputGoesOn(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		frames := tail.Frames{To: w, Kind: tail.FrameStdout}
		switch len(asked) {
		case 1: // the last lines begin at 1000; then the answer is cut off
			_ = errors.Join(frames.SkipTo(1000), write(frames, "abc"))
			frames.Flush()
			panic(http.ErrAbortHandler)
		case 2: // what came next was dropped meanwhile
			_ = errors.Join(frames.SkipTo(2000), write(frames, "xyz"), tail.WriteEnd(w))
		}
	}))
	defer server.Close()
	var to text
	dropped := []int64{}
	s := source(server, &to)
	s.Outputs[0].Lines, s.Outputs[0].Since = 5, time.Minute
	s.Outputs[0].Dropped = func(bytes int64) { dropped = append(dropped, bytes) }
	if err := s.Rest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"stdout=0&stdout.lines=5&stdout.since=1m0s", "stdout=1003"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q", asked)
	}
	if to.String() != "abcxyz" || s.Outputs[0].Offset != 2003 || !slices.Equal(dropped, []int64{997}) {
		t.Errorf("%q to offset %d, dropped %v", to.String(), s.Outputs[0].Offset, dropped)
	}
}

func write(to io.Writer, text string) error {
	_, err := io.WriteString(to, text)
	return err
}
