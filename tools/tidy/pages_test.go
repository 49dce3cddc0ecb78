package tidy

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages returns the names of all pages for people, and of what else shows command lines.
func pages(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*.md", "docs/*.md", "deploy/*", "tender/internal/cli/testdata/help.txt", "allocator/*/*.md", "agent/*/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		for _, name := range found {
			names = append(names, strings.TrimPrefix(filepath.ToSlash(name), "../../"))
		}
	}
	return names
}

// secretArguments matches what hands a secret over as an argument of a command. Each process of a machine, also a task,
// can read the arguments of all others.
var secretArguments = []*regexp.Regexp{
	regexp.MustCompile(`--join[ =]["']?(\$|TOKEN|tender1_)`),
	regexp.MustCompile(`^[$# ]*tender .*tender1_`),
	regexp.MustCompile(`--(password|token)[ =]`),
	regexp.MustCompile(`curl .*( -u | --user |Authorization)`),
}

func secretsShown(text string) (lines []string) {
	for line := range strings.Lines(text) {
		for _, shown := range secretArguments {
			if shown.MatchString(line) {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	return lines
}

// TestNoSecretIsAnArgument: no page shows a command line with a secret.
func TestNoSecretIsAnArgument(t *testing.T) {
	for _, name := range pages(t) {
		for _, line := range secretsShown(contents(t, name)) {
			t.Errorf("%s hands over a secret as an argument; write it into a file: %s", name, line)
		}
	}
	for line, want := range map[string]int{
		"tender agent --join $AGENTS": 1, "tender agent --join=$(tender token create agent)": 1, "$ tender login tender1_a_b_c": 1,
		"tender agent --join agents.token": 0, "say `--join`": 0, "tender1_a_b_c": 0, "tender login --join TOKEN": 1,
	} {
		if got := len(secretsShown(line)); got != want {
			t.Errorf("%q: %d secrets are seen, want %d", line, got, want)
		}
	}
}

// TestTablesRender: each table of the pages has a head, one line below it, and rows of as many cells.
func TestTablesRender(t *testing.T) {
	for _, name := range pages(t) {
		if strings.HasSuffix(name, ".md") {
			for _, wrong := range brokenTables(contents(t, name)) {
				t.Errorf("%s:%s", name, wrong)
			}
		}
	}
	for text, want := range map[string]int{
		"| a | b |\n|---|---|\n| 1 | `2\\|3` |\n":        0,
		"| a | b |\n|---|---|\n| 1 | `2|3` |\n":          1,
		"| a | b |\n|---|---|\n|---|---|\n| 1 | 2 |\n":   1,
		"| a | b |\n\ntext\n":                            1,
		"| a | b |\n|---|\n| 1 | 2 |\n":                  1,
		"```\n| this is no table |\n```\n":               0,
		"| a |\n|---|\n| 1 |\n\n| b |\n|---|\n":          1,
		"text\n| a |\n|---|\n| 1 |\n| more than | a |\n": 1,
	} {
		if got := brokenTables(text); len(got) != want {
			t.Errorf("%q: %q, want %d complaints", text, got, want)
		}
	}
}

// separatorRow matches the line below the head of a table, without the bars at its ends.
var separatorRow = regexp.MustCompile(`^ *:?-+:? *(\| *:?-+:? *)*$`)

// brokenTables returns what keeps tables of a page from being shown as such.
func brokenTables(text string) (wrong []string) {
	fenced, began, cells := false, 0, 0
	end := func(at int) {
		if began > 0 && at-began < 3 {
			wrong = append(wrong, fmt.Sprintf("%d: a table needs a head, the line below it, and rows", began))
		}
		began = 0
	}
	number := 0
	for line := range strings.Lines(text + "\n") {
		number++
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if fenced || !strings.HasPrefix(line, "|") {
			end(number)
			continue
		}
		if began == 0 {
			began, cells = number, cellsOf(line)
		}
		below := separatorRow.MatchString(strings.Trim(line, "|"))
		switch {
		case below && number != began+1:
			wrong = append(wrong, fmt.Sprintf("%d: the line below a table's head is within the table", number))
		case !below && number == began+1:
			wrong = append(wrong, fmt.Sprintf("%d: the table's head has no line below it", number))
		case cellsOf(line) != cells:
			wrong = append(wrong, fmt.Sprintf("%d: the row has %d cells, and the table's head has %d", number, cellsOf(line), cells))
		}
	}
	end(number)
	return wrong
}

// cellsOf counts the cells of a row. A bar that does not divide cells is written with a backslash, also within code.
func cellsOf(row string) int {
	row = strings.ReplaceAll(row, `\|`, "")
	return strings.Count(strings.TrimSuffix(row, "|"), "|")
}
