package visitors

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/inside"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/audit"
	"github.com/tenderhq/tender/internal/rights"
)

// notes are what is written down of visitors: commands inside tasks, and what was denied.
type notes struct {
	audit *audit.Log
	log   zerolog.Logger
}

// linesPerSecond bounds what the log says of what was denied; all of it is counted.
const linesPerSecond = 16

// OpenAudit begins or goes on with the audit log; see [audit.Open].
func (v *Visitors) OpenAudit(setting, dir string, log zerolog.Logger) (err error) {
	v.notes.log = log.Sample(&zerolog.BurstSampler{Burst: linesPerSecond, Period: time.Second})
	v.notes.audit, err = audit.Open(setting, dir)
	return err
}

// CloseAudit ends it.
func (v *Visitors) CloseAudit() error { return v.notes.audit.Close() }

// asked is who asks for what.
type asked struct {
	caller rights.Caller
	call   string
}

type askedKey struct{}

// with is the context of a request in which the caller asks for something.
func with(ctx context.Context, caller rights.Caller, call string) context.Context {
	return context.WithValue(ctx, askedKey{}, asked{caller, call})
}

// Command is one inside a task, as the audit log has it.
type Command struct {
	Task api.TaskRef
	Argv []string
}

// commandNote is a command in JSON.
type commandNote struct {
	Task string   `json:"task"`
	Argv []string `json:"argv"`
	Code *int     `json:"exit_code,omitempty"`
}

// NoteCommand writes down that somebody runs a command and, when it has ended, how.
func (v *Visitors) NoteCommand(r *http.Request, command Command, ended *inside.End) {
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

// NoteChange writes down that somebody has changed something of the agent itself, or has tried to.
func (v *Visitors) NoteChange(r *http.Request, what string, on any, failed *api.Error) {
	if failed != nil {
		v.note(r, what+" not changed", on, failed.Kind.String(), failed.Error())
		return
	}
	v.note(r, what+" changed", on, "ok", "")
}

// NoteDenied writes down what was denied to somebody. What is denied to those whom nobody knows is counted alone, so that they
// fill no disk.
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

// note writes a line, and says the same in the log.
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
