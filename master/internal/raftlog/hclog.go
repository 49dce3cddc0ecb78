package raftlog

import (
	"bytes"
	"fmt"
	"io"
	"log"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"
)

// raftLogger lets Raft speak through our log. Raft's info is our debug: an election
// is told by us, in our words. What Raft says again and again is told once, then
// counted.
type raftLogger struct {
	log     zerolog.Logger
	chatter *chatter
	name    string
	with    []any
}

var levels = map[hclog.Level]zerolog.Level{
	hclog.NoLevel: zerolog.DebugLevel,
	hclog.Trace:   zerolog.TraceLevel,
	hclog.Debug:   zerolog.TraceLevel,
	hclog.Info:    zerolog.DebugLevel,
	hclog.Warn:    zerolog.InfoLevel,
	hclog.Error:   zerolog.WarnLevel,
	hclog.Off:     zerolog.Disabled,
}

// Log writes one line with its fields.
func (l raftLogger) Log(level hclog.Level, msg string, args ...any) {
	fields := append(append([]any{}, l.with...), args...)
	ours := levels[level]
	if level >= hclog.Warn && (isGoodbye(msg, fields) || l.chatter.isQuiet()) {
		ours = zerolog.DebugLevel
	}
	event := l.log.WithLevel(ours)
	if l.log.GetLevel() > ours || event == nil {
		return
	}
	if level >= hclog.Warn {
		again, tell := l.chatter.says(msg, subject(fields))
		if !tell {
			return
		}
		if again > 0 {
			event = event.Uint64("again", again)
		}
	}
	for i := 0; i+1 < len(fields); i += 2 {
		event = event.Str(fmt.Sprint(fields[i]), plain(fields[i+1]))
	}
	event.Msg("raft: " + msg)
}

func (l raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l raftLogger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l raftLogger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l raftLogger) IsTrace() bool { return l.log.GetLevel() <= levels[hclog.Trace] }
func (l raftLogger) IsDebug() bool { return l.log.GetLevel() <= levels[hclog.Debug] }
func (l raftLogger) IsInfo() bool  { return l.log.GetLevel() <= levels[hclog.Info] }
func (l raftLogger) IsWarn() bool  { return l.log.GetLevel() <= levels[hclog.Warn] }
func (l raftLogger) IsError() bool { return l.log.GetLevel() <= levels[hclog.Error] }

func (l raftLogger) ImpliedArgs() []any { return l.with }

func (l raftLogger) With(args ...any) hclog.Logger {
	l.with = append(append([]any{}, l.with...), args...)
	return l
}

func (l raftLogger) Name() string                     { return l.name }
func (l raftLogger) Named(name string) hclog.Logger   { l.name += "." + name; return l }
func (l raftLogger) ResetNamed(n string) hclog.Logger { l.name = n; return l }
func (l raftLogger) SetLevel(hclog.Level)             {}
func (l raftLogger) GetLevel() hclog.Level            { return hclog.Trace }

func (l raftLogger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(nil), "", 0)
}

func (l raftLogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return lineWriter{l} }

// lineWriter makes a line of log of each write.
type lineWriter struct{ log raftLogger }

func (w lineWriter) Write(p []byte) (int, error) {
	w.log.Info(string(bytes.TrimSpace(p)))
	return len(p), nil
}
