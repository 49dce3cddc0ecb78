package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/secrets"
	"github.com/tenderhq/tender/master/registry"
)

// Effect is something that the shell must do; it is one of the types below. The shell performs effects in order. What
// goes to one stream leaves in that order.
//
//sumtype:decl
type Effect interface{ effect() }

// The effects.
type (
	// ToScheduler queues an event for a scheduler's stream. A stream whose queue is full is closed, and SchedulerClosed
	// follows.
	ToScheduler struct {
		Conn  Conn
		Event protocol.SchedulerEvent
	}
	// CloseScheduler closes a stream after what is queued has been sent. Err is the stream's status; nil means success.
	CloseScheduler struct {
		Conn Conn
		Err  *api.Error
	}
	// ToAgent queues an event for an agent's stream. The message carries the leader's term and this session.
	ToAgent struct {
		Conn    Conn
		Session uint64
		Event   protocol.AgentEvent
	}
	// SendSecrets queues TaskSecrets for an agent's stream. The shell unseals the values of these secrets. If one can't
	// be unsealed, the message says so.
	SendSecrets struct {
		Conn    Conn
		Session uint64
		Task    api.TaskRef
		Secrets []secrets.Sealed
	}
	// CloseAgent closes a stream after what is queued has been sent.
	CloseAgent struct {
		Conn Conn
		Err  *api.Error
	}
	// Propose asks the quorum to commit a command. Committed or ProposalRefused follows.
	Propose struct{ Command registry.Command }
	// Reply answers an operator's request, once.
	Reply struct {
		ID     RequestID
		Answer any // KillTaskAnswer, registry.Result or a sentence, by the action
		Err    *api.Error
	}
	// Served tells, for resources that are offered now, when the events came that had made them free.
	Served struct{ Since []time.Time }
	// Log reports one decision: identifiers are fields, and the words are those of the transcripts. Debug marks routine
	// decisions, which are logged only with Config.Debug. Warn marks those that an operator should look at.
	Log struct {
		Message string
		Fields  []Field
		Debug   bool
		Warn    bool
	}
)

// Field is one field of a log line.
type Field struct{ Name, Value string }

// KillTaskAnswer answers KillTask.
type KillTaskAnswer struct {
	Task    api.TaskRef
	Pending bool          // the agent is away, so the kill waits for it
	Already api.TaskState // the state in which the task had already ended; else unspecified
}

func (ToScheduler) effect()    {}
func (CloseScheduler) effect() {}
func (ToAgent) effect()        {}
func (SendSecrets) effect()    {}
func (CloseAgent) effect()     {}
func (Propose) effect()        {}
func (Reply) effect()          {}
func (Served) effect()         {}
func (Log) effect()            {}
