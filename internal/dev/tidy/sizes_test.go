package tidy

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"testing"
)

// The largest sizes of structs, so that a reader can keep each in mind. Files of a package and methods of a receiver are
// not counted: such limits were met by joining files and by functions that take the receiver, which helped nobody.
const (
	fieldsMax = 20 // of one struct
	boolsMax  = 3  // of these; four bools are sixteen states that nobody has listed
)

// sized is a part whose size was counted, and where it is.
type sized struct {
	what, at string
	count    int
}

// partsAreSmall refuses parts that are too large. Exceptions are in the table larger, with their reasons. An entry that
// is not needed any more, or allows more than necessary, is refused as well, so that the table only shrinks.
func partsAreSmall(t *tree) []complaint {
	var found []complaint
	seen := map[string]bool{}
	for _, part := range t.oversized() {
		exception, known := larger[part.what]
		seen[part.what] = true
		switch {
		case !known:
			found = append(found, complaint{part.at, fmt.Sprintf("%s: %d", part.what, part.count),
				"split it where its second noun begins, or say in larger (internal/dev/tidy/tables_test.go) why it is one"})
		case part.count != exception.count:
			found = append(found, complaint{part.at, fmt.Sprintf("%s: %d, and larger says %d", part.what, part.count, exception.count),
				"make it smaller, or give the reason for one more, and write the new count there"})
		}
	}
	for _, what := range slices.Sorted(maps.Keys(larger)) {
		if !seen[what] {
			found = append(found, complaint{"internal/dev/tidy/tables_test.go", what + " is within its size", "take it out of larger"})
		}
	}
	return found
}

// oversized returns all parts of the program and the development tools that are larger than allowed.
func (t *tree) oversized() []sized {
	var parts []sized
	keep := func(what, at string, count, limit int) {
		if count > limit {
			parts = append(parts, sized{what, at, count})
		}
	}
	for _, f := range t.shipped() {
		if f.generated {
			continue
		}
		for _, declared := range f.Decls {
			d, ok := declared.(*ast.GenDecl)
			if !ok {
				continue
			}
			found := structs(d)
			for _, name := range slices.Sorted(maps.Keys(found)) {
				noun, at := f.pkg+"."+name, t.at(found[name])
				fields, bools := fieldsOf(found[name])
				keep("fields of "+noun, at, fields, fieldsMax)
				keep("bools of "+noun, at, bools, boolsMax)
			}
		}
	}
	return parts
}

// baseName returns the name of a type without its pointer and type parameters.
func baseName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return baseName(e.X)
	case *ast.IndexExpr:
		return baseName(e.X)
	case *ast.IndexListExpr:
		return baseName(e.X)
	}
	return ""
}

// structs returns the struct types in one declaration by name.
func structs(d *ast.GenDecl) map[string]*ast.StructType {
	found := map[string]*ast.StructType{}
	for _, spec := range d.Specs {
		if named, ok := spec.(*ast.TypeSpec); ok {
			if s, ok := named.Type.(*ast.StructType); ok {
				found[named.Name.Name] = s
			}
		}
	}
	return found
}

// fieldsOf counts the fields of a struct, an embedded struct as one, and the bools among them.
func fieldsOf(s *ast.StructType) (fields, bools int) {
	for _, f := range s.Fields.List {
		n := max(len(f.Names), 1)
		fields += n
		if of, ok := f.Type.(*ast.Ident); ok && of.Name == "bool" {
			bools += n
		}
	}
	return fields, bools
}

// TestPartsAreSmall shows what is refused.
func TestPartsAreSmall(t *testing.T) {
	text := "package core\ntype small struct{ a, b, c bool }\ntype flags struct{ a, b, c, d bool }\ntype wide struct{\n"
	for i := range fieldsMax + 1 {
		text += fmt.Sprintf("f%d int\n", i)
	}
	text += "}\n"
	files := map[string]string{"master/core/core.go": text}
	var got []string
	for _, part := range parse(files).oversized() {
		got = append(got, fmt.Sprintf("%s: %d", part.what, part.count))
	}
	want := []string{"bools of master/core.flags: 4", "fields of master/core.wide: 21"}
	if !slices.Equal(got, want) {
		t.Errorf("these are called too large: %q, wanted %q", got, want)
	}
}
