package core

import (
	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
)

// checkConstraint reports why an expression can't be used; "" is none and fine.
func (b *base) checkConstraint(expression string) error {
	if expression == "" {
		return nil
	}
	_, err := b.config.Compile(expression)
	return err
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
