package logging_test

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/internal/logging"
)

// TestKept: the newest lines can be asked for, whole ones, and how much was before them.
func TestKept(t *testing.T) {
	w := logging.NewWriter(io.Discard)
	defer w.Close(time.Minute)
	written := 0
	for i := range 20_000 {
		n, _ := w.WriteLevel(zerolog.DebugLevel, fmt.Appendf(nil, `{"message":"this is what was said as line %d"}`+"\n", i))
		written += n
	}
	kept, before := w.Kept()
	if got := int(before) + len(kept); got != written {
		t.Errorf("%d bytes before and %d kept are %d, not the %d that were written", before, len(kept), got, written)
	}
	if !strings.HasPrefix(string(kept), `{"message"`) || !strings.HasSuffix(string(kept), `line 19999"}`+"\n") || len(kept) > 1<<20 {
		t.Errorf("%d bytes are kept, from %.40q", len(kept), kept)
	}
	answer := httptest.NewRecorder()
	w.Show(answer, httptest.NewRequest("GET", "/v1/log?lines=2", nil))
	if got := answer.Body.String(); strings.Count(got, "\n") != 2 || !strings.HasPrefix(got, `{"message":"this is what was said as line 19998"}`) {
		t.Errorf("%q", got)
	}
	if got, err := strconv.Atoi(answer.Header().Get(logging.BeforeHeader)); err != nil || got+answer.Body.Len() != written {
		t.Errorf("%d bytes before, %v", got, err)
	}
	var none *logging.Writer
	if kept, _ := none.Kept(); kept != nil {
		t.Error("no writer keeps lines")
	}
}

// TestWriteErrors: lines that could not be written are counted like those that were dropped.
func TestWriteErrors(t *testing.T) {
	w := logging.NewWriter(failing{})
	if _, err := w.Write([]byte("line\n")); err != nil {
		t.Fatal(err)
	}
	w.Close(time.Minute)
	if got := w.Dropped(); got != 1 {
		t.Errorf("%d lines are lost, not one", got)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
