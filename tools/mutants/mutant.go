package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one seeded bug.
type mutant struct {
	name     string
	file     string // relative to the root of the module
	from, to string // lines of a function in the file, and what stands there instead
	pkg      string // the package whose test finds it
	test     string // the name of that test
	path     string // the path of tools/cost that becomes dearer; "" = a test finds it
}

// parse reads the list. Each mutant begins with "== NAME"; "file PATH" and "found by sim", "found by PACKAGE TEST" or
// "found by cost PATH" follow, then the lines that are taken out, with a minus, and those that are put in, with a plus.
func parse(text string) ([]mutant, error) {
	var all []mutant
	for number, line := range strings.Split(text, "\n") {
		if name, is := strings.CutPrefix(line, "== "); is {
			all = append(all, mutant{name: name})
			continue
		}
		if len(all) == 0 {
			continue // what the list is about
		}
		m := &all[len(all)-1]
		words := strings.Fields(line)
		switch {
		case line == "":
		case strings.HasPrefix(line, "-"):
			m.from += line[1:] + "\n"
		case strings.HasPrefix(line, "+"):
			m.to += line[1:] + "\n"
		case len(words) == 2 && words[0] == "file":
			m.file = words[1]
		case line == "found by sim":
			m.pkg, m.test = simulation, "TestSeeds"
		case strings.HasPrefix(line, "found by cost "):
			m.path = strings.TrimPrefix(line, "found by cost ")
		case len(words) == 4 && words[0] == "found" && words[1] == "by":
			m.pkg, m.test = words[2], words[3]
		default:
			return nil, fmt.Errorf("mutants.txt, line %d: %q is neither of file, found by, - and +", number+1, line)
		}
	}
	return all, nil
}

// variable is the variable of the environment that names the mutant that is turned on.
const variable = "TENDER_MUTANT"

// insert puts a mutant into the text of its file: the function that it changes begins with a changed copy of its own
// body, which runs in its place while the mutant is turned on. The lines that it takes out must be in original, the
// file without any mutant, exactly once.
func (m mutant) insert(text, original string) (string, error) {
	at := strings.Index(original, m.from)
	if count := strings.Count(original, m.from); m.from == "" || count != 1 {
		return "", fmt.Errorf("%s: the lines that it takes out are %d times in %s; they must be there once", m.name, count, m.file)
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, m.file, original, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	for _, d := range parsed.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is || f.Body == nil {
			continue
		}
		head, begin, end := files.Position(f.Pos()).Offset, files.Position(f.Body.Lbrace).Offset+1, files.Position(f.Body.Rbrace).Offset
		if at < begin || at+len(m.from) > end {
			continue
		}
		body := original[begin:at] + m.to + original[at+len(m.from):end]
		if f.Type.Results == nil {
			body += "\treturn\n"
		}
		heading := original[head:begin]
		return strings.Replace(text, heading, fmt.Sprintf("%s\n\tif mutantOn == %q {%s\t}\n", heading, m.name, body), 1), nil
	}
	return "", fmt.Errorf("%s: the lines that it takes out are not those of one function of %s", m.name, m.file)
}

// copyMutated copies the module, without folders that are hidden or built, and puts the mutants into the copy.
func copyMutated(folder string, mutants []mutant) error {
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || path == "bin"):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(folder, path), 0o700)
		case !entry.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, path), data, 0o600)
	})
	if err != nil {
		return err
	}
	for _, m := range mutants {
		if err := m.mutate(folder); err != nil {
			return err
		}
	}
	return nil
}

// mutate puts a mutant into its file in the copy, and the switch into that file's package.
func (m mutant) mutate(folder string) error {
	original, err := os.ReadFile(m.file)
	if err != nil {
		return err
	}
	path := filepath.Join(folder, m.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	mutated, err := m.insert(string(text), string(original))
	if err != nil {
		return err
	}
	name, err := parser.ParseFile(token.NewFileSet(), m.file, original, parser.PackageClauseOnly)
	if err != nil {
		return err
	}
	turned := fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar mutantOn = os.Getenv(%q)\n", name.Name, variable)
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "mutant_on.go"), []byte(turned), 0o600); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(mutated), 0o600)
}
