package frameworktest

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// logLinesMax bounds how many lines are kept; the last ones show what led to a failure.
const logLinesMax = 4000

// logs keeps the last lines of all logs of the cluster. A failed story prints them.
type logs struct {
	mu    sync.Mutex
	lines []logLine
	next  int
	// led holds the last lines before the story was found to have failed; nil until then.
	led []string
}

// logLinesShown is how many of these lines are in the test's output.
const logLinesShown = 60

// failed keeps the lines that led to the first failure, before the end of the story writes further lines.
func (l *logs) failed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.led != nil {
		return
	}
	l.led = []string{}
	for i := max(0, len(l.lines)-logLinesShown); i < len(l.lines); i++ {
		l.led = append(l.led, l.lines[(l.next+i)%len(l.lines)].String())
	}
}

// before returns the lines that led to the failure.
func (l *logs) before() []string {
	l.failed()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.led
}

// logLine is turned into text only when somebody reads it, because most stories end well.
type logLine struct {
	at   time.Time
	host string
	text string
}

func (l logLine) String() string {
	return l.at.UTC().Format(clockFormat) + " " + l.host + ": " + l.text
}

func (l *logs) add(host, text string) {
	line := logLine{time.Now(), host, text}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) < logLinesMax {
		l.lines = append(l.lines, line)
		return
	}
	l.lines[l.next] = line
	l.next = (l.next + 1) % logLinesMax
}

func (l *logs) print(to io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.lines {
		_, _ = fmt.Fprintln(to, l.lines[(l.next+i)%len(l.lines)])
	}
}

// writer returns the writer for the log of one host.
func (l *logs) writer(host string) io.Writer { return logWriter{l, host} }

type logWriter struct {
	logs *logs
	host string
}

// Write takes whole lines, as loggers write them.
func (w logWriter) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		w.logs.add(w.host, string(bytes.TrimRight(line, "\n")))
	}
	return len(b), nil
}

// slog returns a logger that leaves out the time, which the lines have anyway.
func (l *logs) slog(host string) *slog.Logger {
	return slog.New(slog.NewTextHandler(l.writer(host), &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}
