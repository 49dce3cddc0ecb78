package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"io/fs"
	"slices"
	"strings"
)

// describe lists what the package in the folder exports.
func describe(root fs.FS, folder string) ([]string, error) {
	names, err := sourcesOf(root, folder)
	if err != nil {
		return nil, err
	}
	p := &described{fset: token.NewFileSet(), values: make(map[*ast.Ident]types.Object)}
	var files []*ast.File
	for _, name := range names {
		source, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(p.fset, name, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	p.evaluate(folder, files)
	for _, file := range files {
		for _, declaration := range file.Decls {
			p.declaration(declaration)
		}
	}
	slices.Sort(p.lines)
	return slices.Compact(p.lines), nil
}

type described struct {
	fset   *token.FileSet
	values map[*ast.Ident]types.Object
	lines  []string
}

func (p *described) add(format string, args ...any) {
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}

// nothing is an importer that imports nothing: constants that need another package are shown as they are written.
type nothing struct{}

var errNotImported = errors.New("not imported")

func (nothing) Import(string) (*types.Package, error) { return nil, errNotImported }

// evaluate finds the values of the constants, as far as they do not depend on other packages.
func (p *described) evaluate(folder string, files []*ast.File) {
	config := types.Config{Importer: nothing{}, Error: func(error) {}}
	// It returns the errors of missing imports, which are expected.
	_, _ = config.Check(folder, p.fset, files, &types.Info{Defs: p.values})
}

func (p *described) declaration(declaration ast.Decl) {
	switch declaration := declaration.(type) {
	case *ast.FuncDecl:
		p.function(declaration)
	case *ast.GenDecl:
		for _, spec := range declaration.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				p.value(declaration.Tok, spec)
			case *ast.TypeSpec:
				p.typeSpec(spec)
			}
		}
	}
}

func (p *described) function(f *ast.FuncDecl) {
	if !f.Name.IsExported() {
		return
	}
	if f.Recv == nil {
		p.add("func %s%s%s", f.Name, p.parameters(f.Type.TypeParams), p.signature(f.Type))
		return
	}
	receiver := p.text(f.Recv.List[0].Type)
	if ast.IsExported(strings.TrimLeft(receiver, "*")) {
		p.add("method (%s) %s%s", receiver, f.Name, p.signature(f.Type))
	}
}

// value lists a constant with its value, because the order in a group is part of the API.
func (p *described) value(token token.Token, spec *ast.ValueSpec) {
	for i, name := range spec.Names {
		if !name.IsExported() {
			continue
		}
		line := token.String() + " " + name.Name
		constant, known := p.values[name].(*types.Const)
		switch {
		case known && constant.Val() != nil && constant.Val().Kind() != 0:
			if named, ok := types.Unalias(constant.Type()).(*types.Named); ok {
				line += " " + named.Obj().Name()
			}
			line += " = " + constant.Val().ExactString()
		case spec.Type != nil:
			line += " " + p.text(spec.Type)
		case known && i < len(spec.Values):
			line += " = " + p.text(spec.Values[i])
		}
		p.add("%s", line)
	}
}

func (p *described) typeSpec(spec *ast.TypeSpec) {
	if !spec.Name.IsExported() {
		return
	}
	name := spec.Name.Name + p.parameters(spec.TypeParams)
	if spec.Assign.IsValid() {
		name += " ="
	}
	switch body := spec.Type.(type) {
	case *ast.StructType:
		p.add("type %s struct", name)
		p.members(spec.Name.Name, "field", body.Fields)
	case *ast.InterfaceType:
		p.add("type %s interface", name)
		p.members(spec.Name.Name, "method", body.Methods)
	default:
		p.add("type %s %s", name, p.text(body))
	}
}

// members lists the fields of a struct, or the methods and embedded types of an interface. One that is not exported
// means that nobody else can implement the interface, or write the struct without field names.
func (p *described) members(of, noun string, fields *ast.FieldList) {
	hidden := false
	for _, field := range fields.List {
		if len(field.Names) == 0 {
			p.add("type %s embeds %s", of, p.text(field.Type))
		}
		for _, name := range field.Names {
			if !name.IsExported() {
				hidden = true
				continue
			}
			if signature, ok := field.Type.(*ast.FuncType); ok && noun == "method" {
				p.add("%s %s.%s%s", noun, of, name, p.signature(signature))
			} else {
				p.add("%s %s.%s %s", noun, of, name, p.text(field.Type))
			}
		}
	}
	if hidden {
		p.add("type %s has hidden %ss", of, noun)
	}
}

// signature returns a function's types. The names of its parameters are not part of the API.
func (p *described) signature(f *ast.FuncType) string {
	results := p.list(f.Results)
	switch {
	case len(results) == 1:
		return "(" + strings.Join(p.list(f.Params), ", ") + ") " + results[0]
	case len(results) > 1:
		return "(" + strings.Join(p.list(f.Params), ", ") + ") (" + strings.Join(results, ", ") + ")"
	}
	return "(" + strings.Join(p.list(f.Params), ", ") + ")"
}

func (p *described) list(fields *ast.FieldList) []string {
	if fields == nil {
		return nil
	}
	var all []string
	for _, field := range fields.List {
		for range max(len(field.Names), 1) {
			all = append(all, p.text(field.Type))
		}
	}
	return all
}

// parameters returns the type parameters of a generic type or function.
func (p *described) parameters(fields *ast.FieldList) string {
	if fields == nil {
		return ""
	}
	var all []string
	for _, field := range fields.List {
		for _, name := range field.Names {
			all = append(all, name.Name+" "+p.text(field.Type))
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// text returns the expression on one line.
func (p *described) text(expression ast.Expr) string {
	if f, ok := expression.(*ast.FuncType); ok {
		return "func" + p.signature(f)
	}
	var out bytes.Buffer
	if err := printer.Fprint(&out, p.fset, expression); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(out.String()), " ")
}
