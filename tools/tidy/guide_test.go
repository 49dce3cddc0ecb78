package tidy

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var rewrite = flag.Bool("rewrite", false, "write the code blocks of the documents anew")

// block matches Go code in a document. A comment right above it, which readers do not see, says where it comes from:
// <!-- examples/hello/main.go --> for a whole file, or with names of declarations for some of these: <!--
// examples/hello/main.go hello hello.Offers -->.
var block = regexp.MustCompile("(?s)(?:<!-- ([^\n]*) -->\n)?```go\n(.*?)```\n")

// TestCodeInDocuments: code in documents is exactly the code that is compiled and tested here. -rewrite copies it
// again.
func TestCodeInDocuments(t *testing.T) {
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	for _, document := range append(documents, "../../README.md") {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		renewed := block.ReplaceAllStringFunc(string(text), func(found string) string {
			parts := block.FindStringSubmatch(found)
			if parts[1] == "" {
				t.Errorf("%s: a block of Go code names no source; write <!-- FILE NAME... --> above it:\n%s", document, parts[2])
				return found
			}
			code, err := codeOf(strings.Fields(parts[1]))
			if err != nil {
				t.Errorf("%s: %v", document, err)
				return found
			}
			return "<!-- " + parts[1] + " -->\n```go\n" + code + "```\n"
		})
		switch {
		case renewed == string(text):
		case *rewrite:
			if err := os.WriteFile(document, []byte(renewed), 0o600); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s: its code is not that of its sources; 'go test ./tools/tidy -rewrite' copies it anew", document)
		}
	}
}

// codeOf returns a file, or the named declarations in it, in the order of their names.
func codeOf(words []string) (string, error) {
	text, err := os.ReadFile(filepath.Join("../..", words[0]))
	if err != nil || len(words) == 1 {
		return string(text), err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, words[0], text, parser.ParseComments)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, name := range words[1:] {
		part := ""
		for _, decl := range file.Decls {
			if from, named := declared(decl); named == name {
				part = string(text[files.Position(from).Offset:files.Position(decl.End()).Offset])
			}
		}
		if part == "" {
			return "", fmt.Errorf("%s declares no %s", words[0], name)
		}
		parts = append(parts, part+"\n")
	}
	return strings.Join(parts, "\n"), nil
}

// declared returns where a declaration begins, and its name, which is TYPE.METHOD for methods.
func declared(decl ast.Decl) (from token.Pos, name string) {
	from = decl.Pos()
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Doc != nil {
			from = decl.Doc.Pos()
		}
		name = decl.Name.Name
		if decl.Recv != nil {
			receiver := decl.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			if named, ok := receiver.(*ast.Ident); ok {
				name = named.Name + "." + name
			}
		}
	case *ast.GenDecl:
		if decl.Doc != nil {
			from = decl.Doc.Pos()
		}
		switch spec := decl.Specs[0].(type) {
		case *ast.TypeSpec:
			name = spec.Name.Name
		case *ast.ValueSpec:
			name = spec.Names[0].Name
		}
	}
	return from, name
}

// documentColumnsMax is the longest line of a document, so that an old and a new version can be read side by side.
const documentColumnsMax = 120

// TestDocumentsAreNarrow does not check what can't be broken: tables, code, and a single long word.
func TestDocumentsAreNarrow(t *testing.T) {
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case path.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		for _, number := range wideLines(string(text)) {
			t.Errorf("%s:%d: the line has more than %d columns; break it", name, number, documentColumnsMax)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wideLines returns the numbers of the lines that are too long.
func wideLines(text string) (numbers []int) {
	code, number := false, 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\n")
		begins := strings.TrimSpace(line)
		if strings.HasPrefix(begins, "```") {
			code = !code
		}
		if !code && !strings.HasPrefix(begins, "|") && strings.Contains(begins, " ") && utf8.RuneCountInString(line) > documentColumnsMax {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// TestWideLines shows which lines are refused and which are left alone.
func TestWideLines(t *testing.T) {
	wide := strings.Repeat("word ", 30)
	text := "# head\n" + wide + "\n| " + wide + "|\n```\n" + wide + "\n```\n" + strings.Repeat("w", 130) + "\n- " + wide
	if got := wideLines(text); !slices.Equal(got, []int{2, 8}) {
		t.Errorf("the lines %v are called too wide, wanted 2 and 8", got)
	}
}
