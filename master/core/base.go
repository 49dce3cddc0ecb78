package core

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/alarms"
	"github.com/tenderhq/tender/master/core/admission"
	"github.com/tenderhq/tender/master/core/principals"
	"github.com/tenderhq/tender/master/core/wallclock"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// base is what all rooms of the core share: the event at hand, the settings, the leader's copy of the registry, the
// policy, the deadlines, and all agents, frameworks and sessions by their IDs. It decides nothing.
type base struct {
	config    Config
	term      api.Term
	registry  *registry.State // its own copy, up to the last commit that it was told of
	policy    allocator.Allocator
	deadlines alarms.Alarms[due]
	calendar  wallclock.Calendar

	now  time.Time // of the event at hand
	came time.Time // when it came to this master
	out  []Effect  // of the event at hand

	agentByID     map[api.AgentID]*agent         // the admitted ones
	frameworkByID map[api.FrameworkID]*framework // until removed and nothing of them runs
	sessionByConn map[Conn]*session              // schedulers' streams
	shares        principals.Shares              // of what frameworks have, by principal

	mastersAt uint64 // counts changes of the masters' addresses
	voices    uint64 // how often agents spoke of tasks, executors or frameworks that are not theirs, in this term
	strays    uint64 // statuses of agents of frameworks that are not there
	versions  view.RefusedVersions
	receipts  receiptState
}

// emit adds an effect to those of the event at hand.
func (b *base) emit(effect Effect) { b.out = append(b.out, effect) }

// field makes one field of a log line. An identifier of any type will do.
func field[S ~string](name string, value S) Field { return Field{name, string(value)} }

// info reports a decision.
func (b *base) info(message string, fields ...Field) {
	b.emit(Log{Message: message, Fields: fields})
}

// warn reports what an operator should look at.
func (b *base) warn(message string, fields ...Field) {
	b.emit(Log{Message: message, Fields: fields, Warn: true})
}

// debug reports a decision of every day. Callers ask for Config.Debug first: the
// fields cost more than the decision.
func (b *base) debug(message string, fields ...Field) {
	b.emit(Log{Message: message, Fields: fields, Debug: true})
}

// checkConstraint returns why an expression can't be used, nil if it can. "" is no constraint, and fine.
func (b *base) checkConstraint(expression string) error {
	if expression == "" {
		return nil
	}
	_, err := b.config.Compile(expression)
	return err
}

// judge is this leader, as far as those who come are concerned.
func (b *base) judge() admission.Judge {
	return admission.Judge{Registry: b.registry, Term: b.term, Version: b.config.Version}
}

// programs are constraints that must all be true of an agent.
type programs []*constraint.Program

// compileAll compiles what is not empty; the expressions were checked when they came.
func (b *base) compileAll(expressions ...string) programs {
	var all programs
	for _, expression := range expressions {
		if expression == "" {
			continue
		}
		if program, err := b.config.Compile(expression); err == nil {
			all = append(all, program)
		}
	}
	return all
}

func (p programs) hold(role api.Role, a *agent) bool {
	seen := constraint.Agent{Attributes: a.info.Attributes, Hostname: a.info.Hostname,
		Region: a.info.Region, Zone: a.info.Zone, ID: string(a.id), Role: string(role)}
	for _, program := range p {
		if yes, err := program.Holds(seen); !yes || err != nil {
			return false
		}
	}
	return true
}

// refuseVoice counts what an agent says of somebody else's task, executor or framework: it is
// told to nobody (R40).
func (b *base) refuseVoice(a *agent, what string) {
	b.voices++
	if b.config.Debug {
		b.debug("word refused", field("agent", a.id), field("why", "it has nothing of that: "+what))
	}
}

// WordsInVain is how often agents have spoken of what is not theirs, or of a framework that is not there any more. An
// honest agent does so at most once for each of its tasks.
func (c *Core) WordsInVain() uint64 { return c.voices + c.strays }
