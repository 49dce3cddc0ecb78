package tidy

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// boundRow matches a row of docs/bounds.md: "| what | 64 KiB | `master/file.go` `nameMax` | beyond it |".
var boundRow = regexp.MustCompile("^\\| ([^|]+) \\| ([0-9,]+)( [A-Za-z]+)? \\| `([^`]+)` `(\\w+)` \\|")

// units are the units in docs/bounds.md: of bytes, and of times in nanoseconds as in package time.
var units = map[string]int64{
	"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
	"ms": 1e6, "s": 1e9, "min": 60e9, "days": 24 * 3600e9,
}

// TestBoundsAreTrue: every bound in docs/bounds.md has the value of the constant that its row names, in the file that
// it names.
func TestBoundsAreTrue(t *testing.T) {
	text, err := os.ReadFile("../../docs/bounds.md")
	if err != nil {
		t.Fatal(err)
	}
	known := constants{}
	rows := 0
	for line := range strings.Lines(string(text)) {
		match := boundRow.FindStringSubmatch(line)
		if match == nil {
			if strings.Count(line, "`") >= 4 && strings.HasPrefix(line, "| ") {
				t.Errorf("a row that names a constant has no bound that can be read: %s", line)
			}
			continue
		}
		rows++
		file, name := match[4], match[5]
		var figure int64
		if _, err := fmt.Sscan(strings.ReplaceAll(match[2], ",", ""), &figure); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		unit, is := units[strings.TrimSpace(match[3])]
		if !is {
			t.Errorf("unit %q of %s is unknown", match[3], match[1])
		}
		value, err := known.value(file, name)
		if err != nil {
			t.Errorf("docs/bounds.md, %s: %v", match[1], err)
		} else if value != figure*unit {
			t.Errorf("docs/bounds.md says that %s is at most %s%s; %s in %s is %d", match[1], match[2], match[3], name, file, value)
		}
	}
	if rows < 50 {
		t.Errorf("%d rows of docs/bounds.md name a constant; is its form another?", rows)
	}
}

// constants holds the expressions of the constants of packages, by folder.
type constants map[string]map[string]constantAt

type constantAt struct {
	file string
	is   ast.Expr
}

// value returns the value of a constant, which must be declared in this file.
func (c constants) value(file, name string) (int64, error) {
	folder := filepath.Dir(file)
	found, is := c.of(folder)[name]
	if !is || found.file != filepath.Base(file) {
		return 0, fmt.Errorf("%s declares no constant %s", file, name)
	}
	value := constant.ToInt(c.eval(folder, found.is))
	number, exact := constant.Int64Val(value)
	if !exact {
		return 0, fmt.Errorf("%s in %s is no number that this test can read", name, file)
	}
	return number, nil
}

func (c constants) of(folder string) map[string]constantAt {
	if c[folder] != nil {
		return c[folder]
	}
	c[folder] = map[string]constantAt{}
	files, _ := filepath.Glob(filepath.Join("../..", folder, "*.go"))
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil || strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, decl := range parsed.Decls {
			if group, is := decl.(*ast.GenDecl); is && group.Tok == token.CONST {
				c.add(folder, filepath.Base(file), group)
			}
		}
	}
	return c[folder]
}

func (c constants) add(folder, file string, group *ast.GenDecl) {
	for _, spec := range group.Specs {
		spec, is := spec.(*ast.ValueSpec)
		for i := 0; is && i < min(len(spec.Names), len(spec.Values)); i++ {
			c[folder][spec.Names[i].Name] = constantAt{file, spec.Values[i]}
		}
	}
}

// times holds the constants of package time.
var times = map[string]int64{"Millisecond": 1e6, "Second": 1e9, "Minute": 60e9, "Hour": 3600e9}

// eval computes an expression of numbers, constants of its own package, and constants of packages api and time.
func (c constants) eval(folder string, e ast.Expr) constant.Value {
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.ParenExpr:
		return c.eval(folder, e.X)
	case *ast.Ident:
		if found, is := c.of(folder)[e.Name]; is {
			return c.eval(folder, found.is)
		}
	case *ast.SelectorExpr:
		if nanos, is := times[e.Sel.Name]; is {
			return constant.MakeInt64(nanos)
		}
		if found, is := c.of("api")[e.Sel.Name]; is {
			return c.eval("api", found.is)
		}
	case *ast.BinaryExpr:
		x, y := c.eval(folder, e.X), c.eval(folder, e.Y)
		switch bits, small := constant.Uint64Val(y); {
		case x.Kind() != constant.Int || y.Kind() != constant.Int:
		case e.Op == token.SHL && small:
			return constant.Shift(x, token.SHL, uint(bits))
		case e.Op == token.QUO:
			return constant.BinaryOp(x, token.QUO_ASSIGN, y)
		default:
			return constant.BinaryOp(x, e.Op, y)
		}
	}
	return constant.MakeUnknown()
}
