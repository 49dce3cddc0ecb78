package books

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
)

// gates holds all constraints in use, each with the verdicts that were found so far.
type gates struct {
	compile   func(string) (*constraint.Program, error)
	ByKey     map[gateKey]*Gate
	Looks     map[string]*look
	lookHoles []int32
	Judged    int // number of verdicts that were found by evaluating a constraint
}

// Gate is a constraint with its verdicts. A verdict is found once for all agents that look alike to the constraint.
type Gate struct {
	Key      gateKey
	program  *constraint.Program
	Broken   error // it does not compile: no agent passes
	each     bool  // it names hostname or id: there is a verdict for each agent, not for each look
	users    int
	verdicts []verdict // by number of the look or agent
}

// gateKey is what distinguishes two gates. Role is "" unless the constraint names the variable role.
type gateKey struct {
	Expr string
	role api.Role
}

type verdict uint8

const (
	unjudged verdict = iota
	passes
	refused
)

// look stands for all agents that look alike to constraints that name neither hostname nor id.
type look struct {
	number int32
	key    string
	agents int
}

// SetGate replaces the gate by that of this constraint in this role; "" = none.
func (all *gates) SetGate(slot **Gate, expr string, r *Role) {
	old := *slot
	*slot = nil
	if expr != "" {
		*slot = all.gateOf(expr, r.Name)
		(*slot).users++
	}
	if old == nil {
		return
	}
	if old.users--; old.users == 0 {
		delete(all.ByKey, old.Key)
	}
}

func (all *gates) gateOf(expr string, name api.Role) *Gate {
	for _, key := range []gateKey{{expr, ""}, {expr, name}} {
		if g := all.ByKey[key]; g != nil {
			return g
		}
	}
	g := &Gate{Key: gateKey{Expr: expr}}
	if g.program, g.Broken = all.compile(expr); g.Broken == nil {
		g.each = g.program.Uses("hostname") || g.program.Uses("id")
		if g.program.Uses("role") {
			g.Key.role = name
		}
	}
	all.ByKey[g.Key] = g
	return g
}

// Passes reports whether the agent passes the gate.
func (all *gates) Passes(g *Gate, a *Agent) bool {
	if g == nil {
		return true
	}
	number := a.look.number
	if g.each {
		number = a.Number
	}
	for len(g.verdicts) <= int(number) {
		g.verdicts = append(g.verdicts, unjudged)
	}
	v := &g.verdicts[number]
	if *v == unjudged {
		*v = refused
		all.Judged++
		if holds, _ := all.Judge(g, a); holds {
			*v = passes
		}
	}
	return *v == passes
}

func (all *gates) Judge(g *Gate, a *Agent) (bool, error) {
	if g.Broken != nil {
		return false, g.Broken
	}
	s := &a.Spec
	return g.program.Holds(constraint.Agent{
		Attributes: s.Attributes, Hostname: s.Hostname, Region: s.Region, Zone: s.Zone,
		ID: string(s.ID), Role: string(g.Key.role),
	})
}

// Relook finds the agent's look after it may have changed. It reports whether the look has changed, and whether the
// agent had one before (moved).
func (all *gates) Relook(a *Agent) (changed, moved bool) {
	all.rejudge(a.Number, true)
	key := lookKey(a)
	if a.look != nil && a.look.key == key {
		return false, false
	}
	moved = a.look != nil
	all.Unlook(a)
	l := all.Looks[key]
	if l == nil {
		l = &look{number: all.lookNumber(), key: key}
		all.Looks[key] = l
	}
	l.agents++
	a.look = l
	return true, moved
}

// Unlook forgets the agent's look.
func (all *gates) Unlook(a *Agent) {
	l := a.look
	if l == nil {
		return
	}
	a.look = nil
	if l.agents--; l.agents == 0 {
		delete(all.Looks, l.key)
		all.lookHoles = append(all.lookHoles, l.number)
		all.rejudge(l.number, false)
	}
}

func (all *gates) lookNumber() int32 {
	if last := len(all.lookHoles) - 1; last >= 0 {
		number := all.lookHoles[last]
		all.lookHoles = all.lookHoles[:last]
		return number
	}
	return int32(len(all.Looks))
}

// rejudge forgets the verdicts for an agent (each) or a look, by its number.
func (all *gates) rejudge(number int32, each bool) {
	// order: irrelevant because each gate is reset by itself
	for _, g := range all.ByKey {
		if g.each == each && int(number) < len(g.verdicts) {
			g.verdicts[number] = unjudged
		}
	}
}

// lookKey returns everything that such constraints can see of the agent; each part is preceded by its length.
func lookKey(a *Agent) string {
	var key []byte
	add := func(text string) {
		key = binary.AppendUvarint(key, uint64(len(text)))
		key = append(key, text...)
	}
	add(a.Spec.Region)
	add(a.Spec.Zone)
	for _, name := range slices.Sorted(maps.Keys(a.Spec.Attributes)) {
		add(name)
		add(a.Spec.Attributes[name])
	}
	return string(key)
}
