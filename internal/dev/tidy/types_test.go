package tidy

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync"
)

// checker finds out the types in pure packages, which parsing alone can't tell: is this a map? It reads our packages
// from the tree and Go's from the go command. It is no compiler: what does not type-check is left for that one to
// refuse, and a third party is an empty package.
type checker struct {
	tree *tree
	info *types.Info
	done map[string]*types.Package
}

func newChecker(t *tree) *checker {
	return &checker{
		tree: t,
		info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}},
		done: map[string]*types.Package{},
	}
}

// standard knows Go's own packages, once for all checkers; it is not safe to be used by two at a time.
var standard = sync.OnceValue(func() types.Importer { return importer.ForCompiler(token.NewFileSet(), "gc", exported) })

// exported opens what the compiler wrote of a package. The importer's own way needs to know where Go is, which a test
// built with -trimpath does not.
func exported(name string) (io.ReadCloser, error) {
	file, err := exec.Command("go", "list", "-export", "-f", "{{.Export}}", name).Output()
	if err != nil {
		return nil, fmt.Errorf("go list -export %s: %w", name, err)
	}
	return os.Open(strings.TrimSpace(string(file)))
}

// Import answers the type checker.
func (c *checker) Import(name string) (*types.Package, error) {
	if pkg, own := ours(name); own {
		return c.check(pkg), nil
	}
	if fromStandard(name) {
		return standard().Import(name)
	}
	empty := types.NewPackage(name, path.Base(name))
	empty.MarkComplete()
	return empty, nil
}

// check type-checks one of our packages, and before it those that it imports.
func (c *checker) check(pkg string) *types.Package {
	if done := c.done[pkg]; done != nil {
		return done
	}
	c.done[pkg] = types.NewPackage(module+"/"+pkg, path.Base(pkg)) // an import cycle ends here
	var files []*ast.File
	for _, f := range c.tree.shipped() {
		if f.pkg == pkg {
			files = append(files, f.File)
		}
	}
	config := types.Config{Importer: c, Error: func(error) {}, IgnoreFuncBodies: !within(pure, pkg)}
	done, _ := config.Check(module+"/"+pkg, c.tree.fset, files, c.info) // errors are the compiler's to tell
	c.done[pkg] = done
	return done
}

// mapsFunction names the function if the call is one of Go's package maps.
func (c *checker) mapsFunction(call *ast.CallExpr) (string, bool) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	used := c.info.Uses[selector.Sel]
	return selector.Sel.Name, used != nil && used.Pkg() != nil && used.Pkg().Path() == "maps"
}

// isMap sees through names and type parameters.
func isMap(t types.Type) bool {
	if t == nil {
		return false
	}
	if parameter, ok := t.(*types.TypeParam); ok {
		constraint, ok := parameter.Constraint().Underlying().(*types.Interface)
		if !ok || constraint.NumEmbeddeds() == 0 {
			return false
		}
		t = constraint.EmbeddedType(0)
		if union, ok := t.(*types.Union); ok {
			t = union.Term(0).Type()
		}
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}
