package logging

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// tap takes a log while it is open; otherwise it blocks the writer.
type tap struct {
	open chan struct{} // closed: open
	mu   sync.Mutex
	text bytes.Buffer
}

func newTap() *tap { return &tap{open: make(chan struct{})} }

func (p *tap) Write(line []byte) (int, error) {
	<-p.open
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(line)
}

func (p *tap) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Split(strings.TrimSpace(p.text.String()), "\n")
}

// TestWhoLogsNeverWaits: while nothing takes the log, lines are kept up to the limit, warnings still have room when
// other lines have none, and how many were dropped is reported afterwards.
func TestWhoLogsNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newTap()
		w := NewWriter(out)
		log := zerolog.New(w).Hook(Stamp)
		for i := range 5_000 {
			log.Info().Int("number", i).Str("fill", strings.Repeat("x", 1000)).Msg("much")
		}
		log.Warn().Msg("important")
		dropped := w.Dropped()
		if dropped < 1_000 || dropped > 3_000 {
			t.Errorf("%d of 5000 lines of a kilobyte are dropped; 3 MiB are kept", dropped)
		}
		close(out.open)
		synctest.Wait()
		log.Info().Msg("after")
		w.Close(time.Second)
		lines := out.lines()
		for i, line := range lines[:5_000-int(dropped)] {
			if !strings.Contains(line, fmt.Sprintf(`"number":%d,`, i)) {
				t.Fatalf("line %d: %.80s", i, line)
			}
		}
		var said struct {
			Time  time.Time
			Lines uint64
		}
		rest := lines[5_000-int(dropped):]
		if len(rest) != 3 || !strings.Contains(rest[0], "important") || !strings.Contains(rest[2], "after") {
			t.Fatalf("the last lines are %q", rest)
		}
		if err := json.Unmarshal([]byte(rest[1]), &said); err != nil || said.Lines != dropped || said.Time.IsZero() {
			t.Errorf("it says %q, %v; %d were dropped", rest[1], err, dropped)
		}
	})
}

// TestAFloodIsSampled: after the burst one line of a hundred is kept, and every line again when the flood is over.
// Warnings are not sampled, nor are details that somebody asked for.
func TestAFloodIsSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newTap()
		close(out.open)
		w := NewWriter(out)
		log := zerolog.New(w)
		for range linesBurst + 1_000 {
			log.Info().Msg("flood")
		}
		for range 1_000 {
			log.Warn().Msg("warning")
			log.Debug().Msg("detail")
			synctest.Wait()
		}
		<-time.After(time.Second)
		for range linesPerSecond {
			log.Info().Msg("later")
		}
		w.Close(time.Second)
		counts := map[string]int{}
		for _, line := range out.lines() {
			for _, word := range []string{"flood", "warning", "detail", "later", "dropped"} {
				if strings.Contains(line, word) {
					counts[word]++
				}
			}
		}
		for word, want := range map[string]int{"flood": linesBurst + 10, "warning": 1_000, "detail": 1_000, "later": linesPerSecond} {
			if counts[word] != want {
				t.Errorf("%d lines of %s, not %d", counts[word], word, want)
			}
		}
		if w.Dropped() != 990 || counts["dropped"] == 0 {
			t.Errorf("%d lines were dropped, which was said %d times", w.Dropped(), counts["dropped"])
		}
	})
}

// TestCloseDoesNotWaitForEver: Close returns even if nobody ever takes the rest.
func TestCloseDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newTap()
		w := NewWriter(out)
		_, _ = w.Write([]byte("a line\n"))
		began := time.Now()
		w.Close(time.Second)
		if time.Since(began) != time.Second {
			t.Errorf("it took %v", time.Since(began))
		}
		close(out.open)
	})
}
