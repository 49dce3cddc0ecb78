package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutantsFit: each seeded bug fits the sources as they are, names a finder, and changes something. So whoever
// changes such a line also keeps its mutant; make mutants runs them.
func TestMutantsFit(t *testing.T) {
	mutants, err := parse(list)
	if err != nil {
		t.Fatal(err)
	}
	names, texts := map[string]bool{}, map[string]string{}
	for _, m := range mutants {
		source, err := os.ReadFile(filepath.Join("../..", m.file))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if texts[m.file] == "" {
			texts[m.file] = string(source)
		}
		mutated, err := m.insert(texts[m.file], string(source))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, mutated, 0); err != nil || m.from == m.to || m.test+m.path == "" {
			t.Errorf("%s: it is no Go, changes nothing, or has no finder: %v", m.name, err)
		}
		if names[m.name] {
			t.Errorf("%s is there twice", m.name)
		}
		names[m.name], texts[m.file] = true, mutated
	}
	if len(mutants) < 40 {
		t.Errorf("there are %d mutants; at least 40 are wanted", len(mutants))
	}
}

// TestParse: a line that is nothing of a mutant is refused with its number, and so are lines that are there twice.
func TestParse(t *testing.T) {
	if _, err := parse("== a\nfile x\nnonsense\n"); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("it is refused with %v", err)
	}
	const twice = "package x\nfunc f() {\n\tf()\n\tg()\n\tf()\n}\n"
	if _, err := (mutant{file: "x", from: "\tf()\n"}).insert(twice, twice); err == nil {
		t.Error("lines that are there twice are replaced")
	}
	if _, err := (mutant{file: "x", from: "package x\n"}).insert(twice, twice); err == nil {
		t.Error("lines outside of a function are replaced")
	}
}
