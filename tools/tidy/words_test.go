package tidy

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// packagesPromise requires one comment for each package, in one file, that begins as godoc expects.
func packagesPromise(t *tree) []complaint {
	type promise struct {
		first *file
		said  []*file
	}
	packages := map[string]*promise{}
	for _, f := range t.shipped() {
		p := packages[f.pkg]
		if p == nil {
			p = &promise{first: f}
			packages[f.pkg] = p
		}
		if f.Doc != nil && strings.TrimSpace(f.Doc.Text()) != "" {
			p.said = append(p.said, f)
		}
	}
	var found []complaint
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		p := packages[pkg]
		name := p.first.Name.Name
		switch {
		case len(p.said) == 0:
			found = append(found, complaint{p.first.path + ":1", "package " + pkg + " makes no promise",
				"open one of its files with a comment: what it owns, then what it never does"})
		case name != "main" && !strings.HasPrefix(p.said[0].Doc.Text(), "Package "+name+" "):
			found = append(found, complaint{t.at(p.said[0].Doc), "the comment does not name its package",
				"begin it with \"Package " + name + " ...\""})
		}
		for _, again := range p.said[min(1, len(p.said)):] {
			found = append(found, complaint{t.at(again.Doc), "package " + pkg + " has its promise in " + p.said[0].path + " too",
				"godoc joins them in no order: keep one, and put an empty line between the other and its package clause"})
		}
	}
	return found
}

// testsDoNotSleep refuses sleeps in tests: a sleep is either too short on a busy machine or too long on every other.
func testsDoNotSleep(t *tree) []complaint {
	var found []complaint
	for _, f := range t.files {
		if !f.test {
			continue
		}
		f.uses(func(node ast.Node, from, name string) {
			if from == "time" && name == "Sleep" {
				found = append(found, complaint{t.at(node), "the test sleeps",
					"advance the clock or await a signal (in a synctest bubble: synctest.Wait, or receive from what should fire)"})
			}
		})
	}
	return found
}

// leftover is written in pieces, so that this file does not refuse itself.
var leftover = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// nothingIsLeftOver refuses notes of authors to themselves.
func nothingIsLeftOver(t *tree) []complaint {
	texts := maps.Clone(t.others)
	for _, f := range t.files {
		if !f.generated {
			texts[f.path] = f.text
		}
	}
	var found []complaint
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		number := 0
		for line := range strings.Lines(texts[name]) {
			number++
			if mark := leftover.FindString(line); mark != "" {
				found = append(found, complaint{fmt.Sprintf("%s:%d", name, number), mark + " was left behind",
					"do it now, or say in plain words what holds today and why"})
			}
		}
	}
	return found
}

// filesHoldOneNoun refuses files that are too long to read.
func filesHoldOneNoun(t *tree) []complaint {
	var found []complaint
	for _, f := range t.files {
		if n := lines(f.text); n > fileLinesMax && !f.generated {
			found = append(found, complaint{fmt.Sprintf("%s:%d", f.path, fileLinesMax+1),
				fmt.Sprintf("%s has %d lines, more than %d", path.Base(f.path), n, fileLinesMax),
				"one file per noun (STYLE): split it where the second noun begins"})
		}
	}
	return found
}

// sourcesParse refuses files that do not parse, because they can't be checked.
func sourcesParse(t *tree) []complaint { return t.broken }
