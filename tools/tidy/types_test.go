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

// checker finds types in pure packages, such as whether something is a map, which parsing alone can't tell. It reads
// our packages from the tree and Go's own from the go command. It does not report type errors, which the compiler does,
// and takes third-party packages for empty.
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

// standard imports Go's own packages, for all checkers; it must not be used by two at the same time.
var standard = sync.OnceValue(func() types.Importer { return importer.ForCompiler(token.NewFileSet(), "gc", exported) })

// exported opens the compiler's export data of a package. The importer's own way needs to know where Go is, which a
// test that was built with -trimpath does not.
func exported(name string) (io.ReadCloser, error) {
	file, err := exec.Command("go", "list", "-export", "-f", "{{.Export}}", name).Output()
	if err != nil {
		return nil, fmt.Errorf("go list -export %s: %w", name, err)
	}
	return os.Open(strings.TrimSpace(string(file)))
}

// Import returns a package to the type checker.
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

// check type-checks one of our packages, and before that those that it imports.
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
	done, _ := config.Check(module+"/"+pkg, c.tree.fset, files, c.info) // the compiler reports errors
	c.done[pkg] = done
	return done
}

// mapsFunction returns the name of the function if the call is one of Go's package maps.
func (c *checker) mapsFunction(call *ast.CallExpr) (string, bool) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	used := c.info.Uses[selector.Sel]
	return selector.Sel.Name, used != nil && used.Pkg() != nil && used.Pkg().Path() == "maps"
}

// isMap says whether a type is a map, also behind names and type parameters.
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
