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

// row is the first cell of a row of the guide's table of variables.
var row = regexp.MustCompile("(?m)^\\| `(TENDER_(?:TASK|EXECUTOR)_[A-Z_]+)")

// TestEnvironmentIsInTheGuide: the table of what tasks and executors find in their environment names each variable of
// the code once, and no other (R33).
func TestEnvironmentIsInTheGuide(t *testing.T) {
	set := append(variablesOf(t, "../../protocol/environment.go"), variablesOf(t, "../../../api/ports.go")...)
	guide, err := os.ReadFile("../../../docs/write-a-framework.md")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, found := range row.FindAllStringSubmatch(string(guide), -1) {
		told = append(told, strings.Replace(found[1], "_PORT_NAME", "_PORT_", 1)) // one begins alike for each port
	}
	slices.Sort(set)
	slices.Sort(told)
	if len(set) == 0 || !slices.Equal(set, told) {
		t.Errorf("internal/protocol/environment.go and api/ports.go have\n%q\nand the table in docs/write-a-framework.md\n%q", set, told)
	}
}

// variablesOf are the names of environment variables that a source spells out.
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
