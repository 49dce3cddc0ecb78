package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tenderhq/tender/agent/visitors"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/testing/memnet"
)

// TestPicturesThatNobodyReads (R34): only a few answers that show everything on an agent are in memory, however many
// clients ask and do not read. A further request is refused. A client that does not read for long is cut off. The next
// client is then served, also on a connection that was served before.
func TestPicturesThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		var made atomic.Int64
		listener, err := network.Listen("host:1")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: make(pictures, picturesMax).bounded(func(w http.ResponseWriter, _ *http.Request) {
			made.Add(1)
			visitors.AnswerJSON(w, strings.Repeat("x", 4<<20))
		})}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(listener) }()
		var deaf []net.Conn
		for range 4 * picturesMax {
			conn, err := network.From("deaf").Dial(t.Context(), "host:1")
			if err == nil {
				_, err = conn.Write([]byte("GET / HTTP/1.1\r\nHost: host\r\n\r\n"))
			}
			if err != nil {
				t.Fatal(err)
			}
			deaf = append(deaf, conn)
		}
		synctest.Wait()
		if n := made.Load(); n != picturesMax {
			t.Errorf("%d answers were made", n)
		}
		client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return network.From("reader").Dial(ctx, address)
		}}}
		ask := func() int {
			answer, err := client.Get("http://host:1/")
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if _, err := io.Copy(io.Discard, answer.Body); err != nil {
				t.Fatal(err)
			}
			return answer.StatusCode
		}
		if code := ask(); code != http.StatusTooManyRequests {
			t.Errorf("one more is answered with %d", code)
		}
		for range 3 {
			pause.For(t.Context(), 2*pictureTimeMax)
			if code := ask(); code != http.StatusOK {
				t.Errorf("later it is answered with %d", code)
			}
		}
		for _, conn := range deaf {
			_ = conn.Close()
		}
		client.CloseIdleConnections()
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}
