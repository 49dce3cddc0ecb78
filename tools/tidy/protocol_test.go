package tidy

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestRulesAreTested: each rule of docs/protocol.md is named by a transcript or a test, and no test names a rule that
// does not exist.
func TestRulesAreTested(t *testing.T) {
	root := os.DirFS("../..")
	text, err := fs.ReadFile(root, "docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := rulesOf(string(text))
	if len(rules) < 33 {
		t.Fatalf("docs/protocol.md has %d rules; they begin with \"- **R1 Name.**\"", len(rules))
	}
	named, err := namedRules(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		if len(named[rule]) == 0 {
			t.Errorf("no transcript or test names %s; write one for it, or name it where it is tested", rule)
		}
		delete(named, rule)
	}
	for rule, files := range named {
		t.Errorf("%s names %s, which docs/protocol.md does not have", files[0], rule)
	}
}

var (
	ruleHead = regexp.MustCompile(`(?m)^- \*\*(R[0-9]+) `)
	ruleName = regexp.MustCompile(`\bR[0-9]+\b`)
)

func rulesOf(protocol string) []string {
	var rules []string
	for _, match := range ruleHead.FindAllStringSubmatch(protocol, -1) {
		rules = append(rules, match[1])
	}
	return rules
}

// namedRules returns for each rule the files that name it: stories in testdata, and comments of tests.
func namedRules(root fs.FS) (map[string][]string, error) {
	named := make(map[string][]string)
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (path == "tools/tidy" || path != "." && strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		story := strings.HasSuffix(path, ".txt") && strings.Contains(path, "testdata/")
		if !story && !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			comment, is := commentOf(line, story)
			if !is {
				continue
			}
			for _, rule := range ruleName.FindAllString(comment, -1) {
				named[rule] = append(named[rule], path)
			}
		}
		return nil
	})
	return named, err
}

// commentOf returns the comment on a line: after # in a story, after // in Go.
func commentOf(line string, story bool) (string, bool) {
	if story {
		return line, strings.HasPrefix(line, "#")
	}
	_, comment, is := strings.Cut(line, "//")
	return comment, is
}
