package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// row matches the first cell of a row in the guide's table of environment variables.
var row = regexp.MustCompile("(?m)^\\| `(TENDER_(?:TASK|EXECUTOR)_[A-Z_]+)")

// TestEnvironmentIsInTheGuide: the guide's table of the environment of tasks and executors names each variable in the
// code once, and no other (R33).
func TestEnvironmentIsInTheGuide(t *testing.T) {
	set := append(variablesOf(t, "../../internal/protocol/environment.go"), variablesOf(t, "../../api/ports.go")...)
	guide, err := os.ReadFile("../../docs/write-a-framework.md")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, found := range row.FindAllStringSubmatch(string(guide), -1) {
		told = append(told, strings.Replace(found[1], "_PORT_NAME", "_PORT_", 1)) // the variables of all ports begin alike
	}
	slices.Sort(set)
	slices.Sort(told)
	if len(set) == 0 || !slices.Equal(set, told) {
		t.Errorf("internal/protocol/environment.go and api/ports.go have\n%q\nand the table in docs/write-a-framework.md\n%q", set, told)
	}
}

// variablesOf returns the names of environment variables in a source file.
func variablesOf(t *testing.T, source string) []string {
	file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(file, func(node ast.Node) bool {
		if literal, is := node.(*ast.BasicLit); is && literal.Kind == token.STRING {
			if name, err := strconv.Unquote(literal.Value); err == nil && strings.HasPrefix(name, "TENDER_") {
				names = append(names, name)
			}
		}
		return true
	})
	return names
}
