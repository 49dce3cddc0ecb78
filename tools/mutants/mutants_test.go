package main

import (
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
	names := map[string]bool{}
	for _, m := range mutants {
		source, err := os.ReadFile(filepath.Join("../..", m.file))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		changed, err := m.apply(string(source))
		if err != nil || changed == string(source) {
			t.Errorf("%s: it changes nothing: %v", m.name, err)
		}
		if names[m.name] {
			t.Errorf("%s is there twice", m.name)
		}
		names[m.name] = true
	}
	if len(mutants) < 40 {
		t.Errorf("there are %d mutants; at least 40 are wanted", len(mutants))
	}
}

// TestParse: a line that is nothing of a mutant is refused with its number.
func TestParse(t *testing.T) {
	if _, err := parse("== a\nfile x\nnonsense\n"); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("it is refused with %v", err)
	}
	if _, err := (mutant{file: "x", from: "a\n"}).apply("a\nb\na\n"); err == nil {
		t.Error("lines that are there twice are replaced")
	}
}
