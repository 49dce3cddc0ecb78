package tidy

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// pureFiles returns the files that the rules of purity read, without tests.
func (t *tree) pureFiles() []*file {
	var files []*file
	for _, f := range t.shipped() {
		if within(pure, f.pkg) {
			files = append(files, f)
		}
	}
	return files
}

// pureReachesNoWorld refuses imports and names through which a clock, randomness or the outside world could get in.
func pureReachesNoWorld(t *tree) []complaint {
	var found []complaint
	for _, f := range t.pureFiles() {
		for _, spec := range f.Imports {
			name := imported(spec)
			if _, own := ours(name); !own && !has(pureImports, name) {
				found = append(found, complaint{t.at(spec), f.pkg + " is pure and may not import " + name,
					"the shell acts, the core decides: let the value arrive in an event or leave as an effect " +
						"(a package that only computes can be added to pureImports in tools/tidy/tables_test.go)"})
			}
		}
		f.uses(func(node ast.Node, from, name string) {
			rule := impure[from]
			if has(rule.ban, name) || rule.only != "" && !has(rule.only, name) {
				found = append(found, complaint{t.at(node), f.pkg + " is pure and may not use " + from + "." + name,
					"time arrives in event.At, chance as a seeded *rand.Rand, output leaves as an effect"})
			}
		})
	}
	return found
}

// pureStartsNothing refuses goroutines, channels, and printing with the builtin functions.
func pureStartsNothing(t *tree) []complaint {
	var found []complaint
	for _, f := range t.pureFiles() {
		ast.Inspect(f.File, func(node ast.Node) bool {
			if what := concurrency(node); what != "" {
				found = append(found, complaint{t.at(node), f.pkg + " is pure and may hold no " + what,
					"one loop in the shell owns the core: return an effect and let the shell wait, start and send"})
			}
			return true
		})
	}
	return found
}

func concurrency(node ast.Node) string {
	switch node := node.(type) {
	case *ast.GoStmt:
		return "goroutine"
	case *ast.ChanType:
		return "channel"
	case *ast.SendStmt:
		return "send to a channel"
	case *ast.SelectStmt:
		return "select"
	case *ast.UnaryExpr:
		if node.Op == token.ARROW {
			return "receive from a channel"
		}
	case *ast.CallExpr:
		if ident, ok := node.Fun.(*ast.Ident); ok && ident.Obj == nil && (ident.Name == "print" || ident.Name == "println") {
			return "print"
		}
	}
	return ""
}

// orderNote is the comment that says, on the line of a loop over a map or the one above, why the order does not matter.
const orderNote = "// order: irrelevant because "

// pureOrderIsSorted refuses to walk a map in Go's random order. It accepts slices.Sorted(maps.Keys(m)), a loop that
// only collects what the same function sorts afterwards, and an orderNote with a reason.
func pureOrderIsSorted(t *tree) []complaint {
	checked := newChecker(t)
	var found []complaint
	for _, f := range t.pureFiles() {
		checked.check(f.pkg)
		noted := t.notedLines(f)
		refuse := func(node ast.Node, what string) {
			if !noted[t.fset.Position(node.Pos()).Line] {
				found = append(found, complaint{t.at(node), what + " gives another order each time",
					"range over slices.Sorted(maps.Keys(m)); where order can't show, say so above: \"" + orderNote + "...\""})
			}
		}
		gathering := sortedLoops(f)
		settled := orderlessCalls(f)
		ast.Inspect(f.File, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.RangeStmt:
				if isMap(checked.info.TypeOf(node.X)) && !gathering[node] {
					refuse(node, "ranging over a map")
				}
			case *ast.CallExpr:
				if name, ok := checked.mapsFunction(node); ok && has("All Keys Values", name) && !settled[node] {
					refuse(node, "maps."+name)
				}
			}
			return true
		})
	}
	return found
}

// notedLines returns the lines with an orderNote that has a reason, and the lines below them.
func (t *tree) notedLines(f *file) map[int]bool {
	noted := map[int]bool{}
	for _, group := range f.Comments {
		for _, comment := range group.List {
			if reason, ok := strings.CutPrefix(comment.Text, orderNote); ok && strings.TrimSpace(reason) != "" {
				noted[t.fset.Position(comment.Pos()).Line] = true
				noted[t.fset.Position(group.End()).Line+1] = true
			}
		}
	}
	return noted
}

// orderlessCalls returns calls whose result is directly sorted, or put into another map, so that its order is lost.
func orderlessCalls(f *file) map[ast.Node]bool {
	settled := map[ast.Node]bool{}
	ast.Inspect(f.File, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch types.ExprString(call.Fun) {
		case "slices.Sorted", "slices.SortedFunc", "slices.SortedStableFunc", "maps.Collect", "maps.Insert":
			for _, argument := range call.Args {
				settled[argument] = true
			}
		}
		return true
	})
	return settled
}

// sortedLoops returns the loops that only append to a slice that a later statement of the same block sorts.
func sortedLoops(f *file) map[*ast.RangeStmt]bool {
	loops := map[*ast.RangeStmt]bool{}
	ast.Inspect(f.File, func(node ast.Node) bool {
		block, ok := node.(*ast.BlockStmt)
		if !ok {
			return true
		}
		for i, statement := range block.List {
			loop, ok := statement.(*ast.RangeStmt)
			if !ok {
				continue
			}
			slice := appendsTo(loop.Body)
			for _, later := range block.List[i+1:] {
				if slice != "" && sorts(later, slice) {
					loops[loop] = true
				}
			}
		}
		return true
	})
	return loops
}

// appendsTo returns the slice of a body that is only "s = append(s, ...)", perhaps under one condition.
func appendsTo(body *ast.BlockStmt) string {
	if len(body.List) != 1 {
		return ""
	}
	switch statement := body.List[0].(type) {
	case *ast.IfStmt:
		if statement.Else == nil {
			return appendsTo(statement.Body)
		}
	case *ast.AssignStmt:
		call, ok := statement.Rhs[0].(*ast.CallExpr)
		if ok && len(statement.Lhs) == 1 && types.ExprString(call.Fun) == "append" {
			if to := types.ExprString(statement.Lhs[0]); to == types.ExprString(call.Args[0]) {
				return to
			}
		}
	}
	return ""
}

// sorts says whether a statement is a call of package sort or of slices.Sort... with this slice as its first argument.
func sorts(statement ast.Stmt, slice string) bool {
	expression, ok := statement.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := expression.X.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 || types.ExprString(call.Args[0]) != slice {
		return false
	}
	name := types.ExprString(call.Fun)
	return strings.HasPrefix(name, "slices.Sort") || strings.HasPrefix(name, "sort.")
}
