package tidy

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The largest sizes of structs, so that a reader can keep each in mind. Files of a package and methods of a receiver are
// not counted: such limits were met by joining files and by functions that take the receiver, which helped nobody.
const (
	fieldsMax = 20 // of one struct, with those of the structs that it embeds
	boolsMax  = 3  // of these; four bools are sixteen states that nobody has listed
	takersMax = 3  // functions that take a receiver as if they were methods of it
	methodsOf = 10 // a type with so many methods is a receiver
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
				"split it where its second noun begins, or say in larger (tools/tidy/tables_test.go) why it is one"})
		case part.count != exception.count:
			found = append(found, complaint{part.at, fmt.Sprintf("%s: %d, and larger says %d", part.what, part.count, exception.count),
				"make it smaller, or give the reason for one more, and write the new count there"})
		}
	}
	for _, what := range slices.Sorted(maps.Keys(larger)) {
		if !seen[what] {
			found = append(found, complaint{"tools/tidy/tables_test.go", what + " is within its size", "take it out of larger"})
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
	for _, p := range t.shippedPackages() {
		for _, name := range slices.Sorted(maps.Keys(p.structs)) {
			noun, at := p.path+"."+name, t.at(p.structs[name])
			fields, bools := p.fieldsOf(p.structs[name])
			keep("fields of "+noun, at, fields, fieldsMax)
			keep("bools of "+noun, at, bools, boolsMax)
		}
		for _, name := range slices.Sorted(maps.Keys(p.takers)) {
			if p.methods[name] >= methodsOf {
				keep("functions that take "+p.path+"."+name, t.at(p.takers[name][0]), len(p.takers[name]), takersMax)
			}
		}
	}
	return parts
}

// a declaredPackage is what one package declares, without what is generated.
type declaredPackage struct {
	path      string
	structs   map[string]*ast.StructType
	methods   map[string]int             // by the receiver's name
	takers    map[string][]*ast.FuncDecl // functions whose first parameter is a pointer to the type
	functions []*ast.FuncDecl
}

// shippedPackages returns the packages of the program and the development tools, by path.
func (t *tree) shippedPackages() []*declaredPackage {
	all := map[string]*declaredPackage{}
	for _, f := range t.shipped() {
		if f.generated {
			continue
		}
		p := all[f.pkg]
		if p == nil {
			p = &declaredPackage{path: f.pkg, structs: map[string]*ast.StructType{}, methods: map[string]int{}, takers: map[string][]*ast.FuncDecl{}}
			all[f.pkg] = p
		}
		for _, declared := range f.Decls {
			switch d := declared.(type) {
			case *ast.GenDecl:
				maps.Copy(p.structs, structs(d))
			case *ast.FuncDecl:
				p.addFunction(d)
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *declaredPackage) int { return strings.Compare(a.path, b.path) })
}

func (p *declaredPackage) addFunction(d *ast.FuncDecl) {
	p.functions = append(p.functions, d)
	if d.Recv != nil {
		p.methods[baseName(d.Recv.List[0].Type)]++
		return
	}
	if len(d.Type.Params.List) == 0 || strings.HasPrefix(strings.ToLower(d.Name.Name), "new") { // who is made for it is a room of its own
		return
	}
	if pointer, is := d.Type.Params.List[0].Type.(*ast.StarExpr); is {
		if name := baseName(pointer); name != "" {
			p.takers[name] = append(p.takers[name], d)
		}
	}
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

// fieldsOf counts the fields of a struct, and the bools among them. What it embeds by value counts with all its fields,
// because it is a part of the same state: a struct that embeds five others is as large as they are together. A pointer is
// one field, because what it points to has an owner of its own.
func (p *declaredPackage) fieldsOf(s *ast.StructType) (fields, bools int) {
	for _, f := range s.Fields.List {
		of, local := f.Type.(*ast.Ident)
		if embedded := p.structs[baseName(f.Type)]; len(f.Names) == 0 && local && embedded != nil {
			inner, flags := p.fieldsOf(embedded)
			fields, bools = fields+inner, bools+flags
			continue
		}
		n := max(len(f.Names), 1)
		fields += n
		if local && of.Name == "bool" {
			bools += n
		}
	}
	return fields, bools
}

// TestPartsAreSmall shows what is refused.
func TestPartsAreSmall(t *testing.T) {
	text := "package core\ntype small struct{ a, b, c bool }\ntype flags struct{ a, b, c, d bool }\ntype hidden struct{ small\ne bool }\n" +
		"type apart struct{ *small\ne bool }\ntype named struct{ part small\ne bool }\ntype wide struct{\n"
	for i := range fieldsMax + 1 {
		text += fmt.Sprintf("f%d int\n", i)
	}
	text += "}\ntype full struct{ wide }\n"
	for i := range methodsOf {
		text += fmt.Sprintf("func (*wide) m%d() {}\n", i)
	}
	for i := range takersMax + 1 {
		text += fmt.Sprintf("func f%d(*wide) {}\nfunc newPart%d(*wide) {}\nfunc g%d(*small) {}\n", i, i, i)
	}
	files := map[string]string{"master/core/core.go": text}
	var got []string
	for _, part := range parse(files).oversized() {
		got = append(got, fmt.Sprintf("%s: %d", part.what, part.count))
	}
	want := []string{"bools of master/core.flags: 4", "fields of master/core.full: 21", "bools of master/core.hidden: 4", "fields of master/core.wide: 21",
		"functions that take master/core.wide: 4"}
	if !slices.Equal(got, want) {
		t.Errorf("these are called too large: %q, wanted %q", got, want)
	}
}
