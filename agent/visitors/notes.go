package visitors

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/frames"
	"github.com/tenderhq/tender/internal/trust/audit"
	"github.com/tenderhq/tender/internal/trust/rights"
)

// notes are the records about visitors: commands inside tasks, changes of the agent, and denied requests.
type notes struct {
	audit *audit.Log
	log   zerolog.Logger
}

// linesPerSecond bounds the log lines about denied requests; all of these are counted.
const linesPerSecond = 16

// OpenAudit opens the audit log, or makes it; see [audit.Open].
func (v *Visitors) OpenAudit(setting, dir string, log zerolog.Logger) (err error) {
	v.notes.log = log.Sample(&zerolog.BurstSampler{Burst: linesPerSecond, Period: time.Second})
	v.notes.audit, err = audit.Open(setting, dir)
	return err
}

// CloseAudit closes the audit log.
func (v *Visitors) CloseAudit() error { return v.notes.audit.Close() }

// asked says who asks for what.
type asked struct {
	caller rights.Caller
	call   string
}

type askedKey struct{}

// with returns the context of a request in which the caller makes this call.
func with(ctx context.Context, caller rights.Caller, call string) context.Context {
	return context.WithValue(ctx, askedKey{}, asked{caller, call})
}

// Command is a command inside a task, for the audit log.
type Command struct {
	Task api.TaskRef
	Argv []string
}

// commandNote is a command and its exit code as JSON.
type commandNote struct {
	Task string   `json:"task"`
	Argv []string `json:"argv"`
	Code *int     `json:"exit_code,omitempty"`
}

// NoteCommand writes into the audit log that somebody runs a command and, when it has ended, how.
func (v *Visitors) NoteCommand(r *http.Request, command Command, ended *frames.End) {
	note, result, why := commandNote{Task: command.Task.String(), Argv: command.Argv}, "begun", ""
	switch {
	case ended == nil:
	case ended.Why != "":
		result, why = "ended", ended.Why
	default:
		result, note.Code = "ok", &ended.Code
	}
	v.note(r, "a command inside a task", note, result, why)
}

// NoteChange writes into the audit log that somebody has changed something of the agent itself, or has tried to.
func (v *Visitors) NoteChange(r *http.Request, what string, on any, failed *api.Error) {
	if failed != nil {
		v.note(r, what+" not changed", on, failed.Kind.String(), failed.Error())
		return
	}
	v.note(r, what+" changed", on, "ok", "")
}

// NoteDenied writes into the audit log what was denied to somebody. If nobody knows who asked, the denial is only
// counted and logged, so that strangers can't fill the disk.
func (v *Visitors) NoteDenied(r *http.Request, err error) {
	one, _ := r.Context().Value(askedKey{}).(asked)
	if one.caller.Kind == rights.Nobody {
		v.notes.log.Warn().Str("call", one.call).Str("from", r.RemoteAddr).Err(err).Msg("call denied")
		return
	}
	why := err.Error()
	kind := api.KindOf(err)
	if own := (*api.Error)(nil); errors.As(err, &own) && own.Err != nil {
		why = own.Err.Error()
	}
	v.note(r, "call denied", map[string]string{"path": r.URL.Path}, kind.String(), why)
}

// note writes a line into the audit log, and the same into the log.
func (v *Visitors) note(r *http.Request, what string, on any, result, why string) {
	one, _ := r.Context().Value(askedKey{}).(asked)
	line := audit.Line{At: time.Now().UTC(), Who: one.caller.String(), From: r.RemoteAddr, Call: one.call, Result: result}
	line.SetWhy(why)
	text, err := json.Marshal(on)
	if err != nil {
		text = nil
	}
	line.SetOn(text)
	v.notes.log.Info().Str("who", line.Who).Str("from", line.From).Str("call", line.Call).RawJSON("on", line.Shown()).
		Str("result", result).Str("why", line.Why).Msg(what)
	if err := v.notes.audit.Write(line); err != nil {
		v.notes.log.Error().Err(err).Msg("the audit log can't be written")
	}
}
