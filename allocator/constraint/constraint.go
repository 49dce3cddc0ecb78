// Package constraint compiles and evaluates offer constraints: CEL expressions over
// what is known of an agent, such as
//
//	attributes["rack"] == "r1" && !("spot" in attributes)
//	attributes.?rack.orValue("none") != "r1"
//	region == "eu" && hostname.matches("^gpu-[0-9]+")
//	number(attributes["kernel"]) >= 5.4
//
// They are type-checked once and bounded in size and cost, so that no expression of a
// framework can hold up the master. It never reads anything but the agent it is given.
package constraint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"

	"github.com/tenderhq/tender/api"
)

// Bounds of an expression. A longer one is refused. One that costs more to evaluate is false for the agent, with an
// error that says so.
const (
	BytesMax = api.ConstraintBytesMax
	// costMax bounds the steps of an evaluation; a step takes about 10 ns.
	costMax = 10_000
)

// Agent is what an expression sees. Each field is a variable with the field's name in lower case.
type Agent struct {
	Attributes map[string]string
	Hostname   string
	Region     string
	Zone       string
	ID         string
	Role       string // the role in which the offer would be made
}

// Program is a compiled expression. The zero value can't be used; see [Compile].
type Program struct {
	expr string
	run  cel.Program
	uses map[string]bool // variables that the expression names
}

// Compile checks an expression, whose result must be true or false. The error says what is wrong and where, and which
// variables there are.
func Compile(expr string) (*Program, error) {
	if len(expr) > BytesMax {
		return nil, fmt.Errorf("constraint has %d bytes, at most %d are allowed", len(expr), BytesMax)
	}
	if strings.TrimSpace(expr) == "" {
		return nil, errors.New(`constraint is empty; write one such as attributes["rack"] == "r1"`)
	}
	checked, issues := language().Compile(expr)
	if issues.Err() != nil {
		return nil, explained(expr, firstOf(issues))
	}
	if kind := checked.OutputType(); !kind.IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("constraint %q is a %s; it must be true or false, such as attributes[\"rack\"] == \"r1\"", expr, kind)
	}
	run, err := language().Program(checked, cel.CostLimit(costMax), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, explained(expr, err)
	}
	return &Program{expr: expr, run: run, uses: variablesIn(checked)}, nil
}

// String returns the text of the expression.
func (p *Program) String() string { return p.expr }

// Uses reports whether the expression names the variable. An expression that names neither id nor hostname nor role has
// the same result for all agents with equal attributes and place.
func (p *Program) Uses(variable string) bool { return p.uses[variable] }

// Holds evaluates the expression for an agent. If the evaluation fails, the expression does not hold and the error says
// why: the agent lacks an attribute, a text is no number, or the evaluation costs too much.
func (p *Program) Holds(agent Agent) (bool, error) {
	attributes := agent.Attributes
	if attributes == nil {
		attributes = map[string]string{}
	}
	result, _, err := p.run.Eval(map[string]any{
		"attributes": attributes, "hostname": agent.Hostname, "region": agent.Region,
		"zone": agent.Zone, "id": agent.ID, "role": agent.Role,
	})
	if err != nil {
		return false, err
	}
	holds, ok := result.Value().(bool)
	return ok && holds, nil
}

// firstOf returns the compiler's first complaint in one line. The compiler itself would draw the place under the
// expression.
func firstOf(issues *cel.Issues) error {
	first := issues.Errors()[0]
	if where := first.Location; where.Line() > 0 && where.Column() >= 0 {
		return fmt.Errorf("at %d:%d: %s", where.Line(), where.Column()+1, first.Message)
	}
	return errors.New(first.Message)
}

// shownMax is how much of an expression an error shows.
const shownMax = 200

// explained returns the compiler's error in one line, with a hint about what would be right.
func explained(expr string, err error) error {
	hint := "variables are " + strings.Join(variableNames, ", ")
	switch text := err.Error(); {
	case strings.Contains(text, "found no matching overload"):
		hint = `attributes are texts: compare them with "text", or as numbers with number(attributes["name"]) >= 4`
	case strings.Contains(text, "token recognition error"), strings.Contains(text, "Syntax error"):
		hint = `write, for example, attributes["rack"] == "r1" && !("spot" in attributes)`
	}
	if len(expr) > shownMax {
		expr = expr[:shownMax] + "…"
	}
	return fmt.Errorf("constraint %q: %s; %s", expr, strings.Join(strings.Fields(err.Error()), " "), hint)
}

// variablesIn returns the variables that a checked expression names.
func variablesIn(checked *cel.Ast) map[string]bool {
	uses := make(map[string]bool)
	visit := ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind && slices.Contains(variableNames, e.AsIdent()) {
			uses[e.AsIdent()] = true
		}
	})
	ast.PreOrderVisit(checked.NativeRep().Expr(), visit)
	return maps.Clone(uses)
}
