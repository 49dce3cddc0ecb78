package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/secrets"
	"github.com/tenderhq/tender/master/registry"
)

// Effect is what the shell is to do; one of the types below. The shell performs
// them in order. What goes to one stream leaves in that order.
//
//sumtype:decl
type Effect interface{ effect() }

// The effects.
type (
	// ToScheduler queues an event to a scheduler's stream. A stream whose queue is
	// full is closed; SchedulerClosed follows.
	ToScheduler struct {
		Conn  Conn
		Event protocol.SchedulerEvent
	}
	// CloseScheduler ends a stream after what is queued; Err is its status (nil: well).
	CloseScheduler struct {
		Conn Conn
		Err  *api.Error
	}
	// ToAgent queues an event to an agent's stream, under the leader's term and the
	// session.
	ToAgent struct {
		Conn    Conn
		Session uint64
		Event   protocol.AgentEvent
	}
	// SendSecrets queues TaskSecrets to an agent's stream, with the values of these secrets, which the shell opens. One
	// that can't be opened is said there.
	SendSecrets struct {
		Conn    Conn
		Session uint64
		Task    api.TaskRef
		Secrets []secrets.Sealed
	}
	// CloseAgent ends a stream after what is queued.
	CloseAgent struct {
		Conn Conn
		Err  *api.Error
	}
	// Propose asks the quorum to commit a command. Committed or ProposalLost follows.
	Propose struct{ Command registry.Command }
	// Reply answers an operator's request, once.
	Reply struct {
		ID     RequestID
		Answer any // KillTaskAnswer, registry.Result or a sentence, by the action
		Err    *api.Error
	}
	// Served says when the resources that are offered now had become free: when the events came that freed them.
	Served struct{ Since []time.Time }
	// Log reports one decision: identifiers as fields, the words of the transcripts.
	// Debug marks those of every day, which come only with Config.Debug; Warn those that an
	// operator should look at.
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
	Pending bool          // the agent is away
	Already api.TaskState // it had ended before, so
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
