package engine

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
)

// gates are all constraints, each with what it has found.
type gates struct {
	compile   func(string) (*constraint.Program, error)
	byKey     map[gateKey]*gate
	looks     map[string]*look
	lookHoles []int32
	judged    int // verdicts that were found by evaluating a constraint
}

// gate is a constraint with its verdict of each look, found once.
type gate struct {
	key      gateKey
	program  *constraint.Program
	broken   error // it does not compile: nobody passes
	each     bool  // it names hostname or id: verdicts are by agent, not by look
	users    int
	verdicts []verdict // by number of look or agent
}

// gateKey is what two gates differ in. Role is "" unless the constraint names it.
type gateKey struct {
	expr string
	role api.Role
}

type verdict uint8

const (
	unjudged verdict = iota
	passes
	refused
)

// look is what agents look like to constraints that name neither hostname nor id.
type look struct {
	number int32
	key    string
	agents int
}

// setGate replaces the gate by that of the constraint in the role; "" = none.
func (e *gates) setGate(slot **gate, expr string, r *role) {
	old := *slot
	*slot = nil
	if expr != "" {
		*slot = e.gateOf(expr, r.name)
		(*slot).users++
	}
	if old == nil {
		return
	}
	if old.users--; old.users == 0 {
		delete(e.byKey, old.key)
	}
}

func (e *gates) gateOf(expr string, name api.Role) *gate {
	for _, key := range []gateKey{{expr, ""}, {expr, name}} {
		if g := e.byKey[key]; g != nil {
			return g
		}
	}
	g := &gate{key: gateKey{expr: expr}}
	if g.program, g.broken = e.compile(expr); g.broken == nil {
		g.each = g.program.Uses("hostname") || g.program.Uses("id")
		if g.program.Uses("role") {
			g.key.role = name
		}
	}
	e.byKey[g.key] = g
	return g
}

// passes reports whether the agent passes the gate.
func (e *gates) passes(g *gate, a *agent) bool {
	if g == nil {
		return true
	}
	number := a.look.number
	if g.each {
		number = a.number
	}
	for len(g.verdicts) <= int(number) {
		g.verdicts = append(g.verdicts, unjudged)
	}
	v := &g.verdicts[number]
	if *v == unjudged {
		*v = refused
		e.judged++
		if holds, _ := e.judge(g, a); holds {
			*v = passes
		}
	}
	return *v == passes
}

func (e *gates) judge(g *gate, a *agent) (bool, error) {
	if g.broken != nil {
		return false, g.broken
	}
	s := &a.spec
	return g.program.Holds(constraint.Agent{
		Attributes: s.Attributes, Hostname: s.Hostname, Region: s.Region, Zone: s.Zone,
		ID: string(s.ID), Role: string(g.key.role),
	})
}

// relook finds the look of the agent after it may have changed, and reports whether it has; moved says that it had one
// before.
func (e *gates) relook(a *agent) (changed, moved bool) {
	e.rejudge(a.number, true)
	key := lookKey(a)
	if a.look != nil && a.look.key == key {
		return false, false
	}
	moved = a.look != nil
	e.unlook(a)
	l := e.looks[key]
	if l == nil {
		l = &look{number: e.lookNumber(), key: key}
		e.looks[key] = l
	}
	l.agents++
	a.look = l
	return true, moved
}

// unlook forgets the agent's look.
func (e *gates) unlook(a *agent) {
	l := a.look
	if l == nil {
		return
	}
	a.look = nil
	if l.agents--; l.agents == 0 {
		delete(e.looks, l.key)
		e.lookHoles = append(e.lookHoles, l.number)
		e.rejudge(l.number, false)
	}
}

func (e *gates) lookNumber() int32 {
	if last := len(e.lookHoles) - 1; last >= 0 {
		number := e.lookHoles[last]
		e.lookHoles = e.lookHoles[:last]
		return number
	}
	return int32(len(e.looks))
}

// rejudge forgets what the gates have found of a number of an agent or a look.
func (e *gates) rejudge(number int32, each bool) {
	// order: irrelevant because each gate is reset by itself
	for _, g := range e.byKey {
		if g.each == each && int(number) < len(g.verdicts) {
			g.verdicts[number] = unjudged
		}
	}
}

// lookKey is all that such constraints can see, each part with its length before it.
func lookKey(a *agent) string {
	var key []byte
	add := func(text string) {
		key = binary.AppendUvarint(key, uint64(len(text)))
		key = append(key, text...)
	}
	add(a.spec.Region)
	add(a.spec.Zone)
	for _, name := range slices.Sorted(maps.Keys(a.spec.Attributes)) {
		add(name)
		add(a.spec.Attributes[name])
	}
	return string(key)
}
