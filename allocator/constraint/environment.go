package constraint

import (
	"fmt"
	"strconv"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

// variableNames are all variables that an expression may name, in the order in which people are told of them.
var variableNames = []string{"attributes", "hostname", "region", "zone", "id", "role"}

// language is made only once, because that takes several times as long as compiling an expression, and when it is first
// needed, because most processes of the program compile none.
var language = sync.OnceValue(environment)

// environment makes the language of constraints: CEL with its standard functions,
// optional values, functions for texts, lists and sets, and number().
func environment() *cel.Env {
	options := []cel.EnvOption{
		cel.Variable("attributes", cel.MapType(cel.StringType, cel.StringType)),
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserRecursionLimit(64),
		cel.ParserExpressionSizeLimit(BytesMax),
		ext.Strings(),
		ext.Lists(),
		ext.Sets(),
		cel.Function("number", cel.Overload("number_string", []*cel.Type{cel.StringType}, cel.DoubleType, cel.UnaryBinding(number))),
	}
	for _, name := range variableNames[1:] {
		options = append(options, cel.Variable(name, cel.StringType))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		panic(fmt.Sprintf("the language of constraints is broken: %v", err)) // our mistake; the first test would show it
	}
	return env
}

// number reads an attribute as a number, so that "10" is more than "9".
func number(value ref.Val) ref.Val {
	text, ok := value.Value().(string)
	if !ok {
		return types.MaybeNoSuchOverloadErr(value)
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return types.NewErr("%q is not a number", text)
	}
	return types.Double(x)
}
