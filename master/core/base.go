package core

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/alarms"
	"github.com/tenderhq/tender/internal/wallclock"
	"github.com/tenderhq/tender/master/core/admission"
	"github.com/tenderhq/tender/master/core/principals"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// base is what all rooms of the core share: the current event, the settings, the leader's copy of the registry, the
// policy, the deadlines, and all agents, frameworks and sessions by their IDs. It decides nothing.
type base struct {
	config    Config
	term      api.Term
	registry  *registry.State // the core's own copy, up to the last commit that it was told of
	policy    allocator.Allocator
	deadlines alarms.Alarms[due]
	calendar  wallclock.Calendar

	now  time.Time // the time of the current event
	came time.Time // when the current event came to this master
	out  []Effect  // the effects of the current event
	noted

	agentByID     map[api.AgentID]*agent         // admitted agents
	frameworkByID map[api.FrameworkID]*framework // until removed and nothing of them runs any more
	sessionByConn map[Conn]*session              // schedulers' streams
	shares        principals.Shares              // what frameworks have, by principal
	accounts      *accounts                      // who holds and uses how much

	mastersAt uint64 // counts changes of the masters' addresses
	vain      vain
	versions  view.RefusedVersions
	receipts  receiptState
}

// vain counts what agents said in vain, in this term.
type vain struct {
	voices uint64 // of tasks, executors or frameworks that are not theirs
	strays uint64 // statuses for frameworks that do not exist
}

// emit adds an effect to those of the current event.
func (b *base) emit(effect Effect) { b.out = append(b.out, effect) }

// field makes one field of a log line. The value may be an identifier of any type.
func field[S ~string](name string, value S) Field { return Field{name, string(value)} }

// info logs a decision.
func (b *base) info(message string, fields ...Field) {
	b.emit(Log{Message: message, Fields: fields})
}

// warn logs something that an operator should look at.
func (b *base) warn(message string, fields ...Field) {
	b.emit(Log{Message: message, Fields: fields, Warn: true})
}

// debug logs a routine decision. Callers check Config.Debug first, because making the fields costs more than the
// decision.
func (b *base) debug(message string, fields ...Field) {
	b.emit(Log{Message: message, Fields: fields, Debug: true})
}

// checkConstraint returns why an expression can't be used as a constraint; nil if it can. The empty expression means no
// constraint.
func (b *base) checkConstraint(expression string) error {
	if expression == "" {
		return nil
	}
	_, err := b.config.Compile(expression)
	return err
}

// judge returns the judge of agents and schedulers that come to this leader.
func (b *base) judge() admission.Judge {
	return admission.Judge{Registry: b.registry, Term: b.term, Version: b.config.Version}
}

// programs are constraints that must all be true of an agent.
type programs []*constraint.Program

// compileAll compiles the expressions that are not empty. They were checked when they arrived.
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

// refuseVoice counts that an agent spoke of a task, executor or framework that is not its own. Nobody is told what it
// said (R40).
func (b *base) refuseVoice(a *agent, what string) {
	b.vain.voices++
	if b.config.Debug {
		b.debug("word refused", field("agent", a.id), field("why", "it has nothing of that: "+what))
	}
}

// WordsInVain returns how often agents have spoken of something that is not theirs, or of a framework that no longer
// exists. Copies of what tasks said that have ended there are not counted.
func (c *Core) WordsInVain() uint64 { return c.vain.voices + c.vain.strays }
