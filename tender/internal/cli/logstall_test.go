package cli_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/tender/internal/cli"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
)

// shut is a writer that blocks, like a terminal that was stopped, or a log collector that hangs.
type shut struct {
	t      *testing.T
	opened chan struct{}
}

func (s shut) Write(line []byte) (int, error) {
	if strings.HasPrefix(string(line), "tender: ") { // the last words of the command, which should not block
		s.t.Errorf("%s", line)
	}
	<-s.opened
	return len(line), nil
}

// TestALogThatNobodyTakesStopsNothing (R36): a master whose every log line blocks for ever still leads and answers.
func TestALogThatNobodyTakesStopsNothing(t *testing.T) {
	t.Parallel()
	stderr := shut{t, make(chan struct{})}
	defer close(stderr.opened)
	http := "127.0.0.1:" + strconv.Itoa(freePort(t))
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		app := &cli.App{Caller: caller.Caller{
			Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: stderr, Now: time.Now,
			Lookup: func(string) (string, bool) { return "", false },
		}}
		code <- app.Run(ctx, []string{"master", "--insecure", "--data-dir", t.TempDir(), "--raft-profile", "fast", "--log-level", "debug",
			"--http-port", strings.TrimPrefix(http, "127.0.0.1:"), "--grpc-port", strconv.Itoa(freePort(t)), "--raft-port", strconv.Itoa(freePort(t))})
	}()
	until(t, "a leader", func() bool { return strings.HasPrefix(served(t, "http://"+http+"/readyz"), "ok: ") })
	if text := served(t, "http://"+http+"/metrics"); !strings.Contains(text, "tender_log_lines_dropped_total 0") {
		t.Errorf("the metrics do not count what the log has dropped")
	}
	cancel()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d", got)
	}
}

// served returns what is served at a URL; "" if nothing is.
func served(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(text)
}
