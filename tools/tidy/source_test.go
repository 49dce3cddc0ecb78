package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// tree is what the rules read: every file of the repository that people write, or that is generated from such a file.
type tree struct {
	fset   *token.FileSet
	files  []*file           // Go files, sorted by path
	others map[string]string // .proto, Makefile and scripts: path to text
	broken []complaint       // Go files that do not parse
}

// file is one Go file.
type file struct {
	*ast.File
	path      string // from the root, with slashes
	pkg       string // the folder, such as "master/core"; "." for the root
	text      string
	test      bool // _test.go
	generated bool
}

// complaint is one refusal: where, what is wrong, and what would be right.
type complaint struct{ at, wrong, right string }

func (c complaint) String() string { return c.at + ": " + c.wrong + "; " + c.right }

// read reads everything below root, except hidden folders, testdata and modules of their own (tools).
func read(root fs.FS) (*tree, error) {
	texts := map[string]string{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name == "." || name == ".ci" {
				return nil
			}
			_, err := fs.Stat(root, path.Join(name, "go.mod"))
			if err == nil || strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || name == "bin" {
				return fs.SkipDir
			}
			return nil
		}
		if entry.Type().IsRegular() && wanted(name) {
			text, err := fs.ReadFile(root, name)
			texts[name] = string(text)
			return err
		}
		return nil
	})
	return parse(texts), err
}

func wanted(name string) bool {
	return path.Ext(name) == ".go" || path.Ext(name) == ".proto" || path.Ext(name) == ".sh" ||
		path.Base(name) == "Makefile" || path.Dir(name) == ".ci"
}

// parse makes a tree from texts by path.
func parse(texts map[string]string) *tree {
	t := &tree{fset: token.NewFileSet(), others: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if path.Ext(name) != ".go" {
			t.others[name] = texts[name]
			continue
		}
		parsed, err := parser.ParseFile(t.fset, name, texts[name], parser.ParseComments)
		if err != nil {
			t.broken = append(t.broken, complaint{name, "does not parse: " + err.Error(), "mend it first"})
			continue
		}
		t.files = append(t.files, &file{
			File:      parsed,
			path:      name,
			pkg:       path.Dir(name),
			text:      texts[name],
			test:      strings.HasSuffix(name, "_test.go"),
			generated: ast.IsGenerated(parsed),
		})
	}
	return t
}

// at returns the position of a node as people and editors write it.
func (t *tree) at(node ast.Node) string {
	position := t.fset.Position(node.Pos())
	return fmt.Sprintf("%s:%d", position.Filename, position.Line)
}

// shipped returns the files that are linked into programs: all except tests.
func (t *tree) shipped() []*file {
	return slices.DeleteFunc(slices.Clone(t.files), func(f *file) bool { return f.test })
}

// imported returns the path that an import names.
func imported(spec *ast.ImportSpec) string {
	name, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return name
}

// ours returns the folder in this repository that an import names, if it is one of ours.
func ours(name string) (string, bool) {
	if name == module {
		return ".", true
	}
	return strings.CutPrefix(name, module+"/")
}

// fromStandard says whether an import comes with Go: its first element is not a host.
func fromStandard(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}

// uses calls yield with each NAME of an imported package that the file uses as package.NAME.
func (f *file) uses(yield func(node ast.Node, imported, name string)) {
	local := map[string]string{}
	for _, spec := range f.Imports {
		from := imported(spec)
		as := path.Base(from)
		if isMajor(as) {
			as = path.Base(path.Dir(from))
		}
		if spec.Name != nil {
			as = spec.Name.Name
		}
		local[as] = from
	}
	ast.Inspect(f.File, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if ident, ok := selector.X.(*ast.Ident); ok && ident.Obj == nil && local[ident.Name] != "" {
			yield(selector, local[ident.Name], selector.Sel.Name)
		}
		return true
	})
}

// isMajor recognizes the "v2" at the end of math/rand/v2.
func isMajor(element string) bool {
	digits, ok := strings.CutPrefix(element, "v")
	_, err := strconv.Atoi(digits)
	return ok && err == nil
}

// within says whether a list of packages (see floor) contains pkg. Later words overrule earlier ones.
func within(list, pkg string) bool {
	in := false
	for word := range strings.FieldsSeq(list) {
		pattern, not := strings.CutPrefix(word, "!")
		if matches(pattern, pkg) {
			in = !not
		}
	}
	return in
}

func matches(pattern, pkg string) bool {
	base, deep := strings.CutSuffix(pattern, "/...")
	return pattern == "..." || pkg == base || deep && strings.HasPrefix(pkg, base+"/")
}

// has says whether a list of words contains one.
func has(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

// lines counts lines as editors do.
func lines(text string) int { return bytes.Count([]byte(text), []byte("\n")) }
