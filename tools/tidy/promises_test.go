package tidy

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenderhq/tender/internal/trust/rights"
)

// TestEveryPromiseHasItsTest: docs/protocol.md says of each answer where its promise lives, and names the transcript or
// the test that kills the leader right behind the answer, or says in words what ends the promise (R53). A transcript that
// it names has a failover. Each call that changes something has a row.
func TestEveryPromiseHasItsTest(t *testing.T) {
	_, table, found := strings.Cut(contents(t, "docs/protocol.md"), "## What answers promise")
	if !found {
		t.Fatal("docs/protocol.md does not say what answers promise")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	tests := namesOfTests(t)
	rows, calls := 0, map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || len(cells) != 4 || strings.HasPrefix(cells[0], "--") || strings.TrimSpace(cells[0]) == "answer" {
			continue
		}
		rows++
		for call := range strings.SplitSeq(cells[1], ",") {
			calls[strings.TrimSpace(call)] = true
		}
		where := strings.TrimSpace(cells[2])
		if !strings.HasPrefix(where, "registry") && !strings.HasPrefix(where, "agent's disk") && !strings.HasPrefix(where, "nowhere: ") {
			t.Errorf("%q lives in %q: the registry, the agent's disk, or nowhere and why", cells[0], where)
		}
		for test := range strings.SplitSeq(cells[3], ",") {
			test = strings.Trim(strings.TrimSpace(test), "`")
			if !tests[test] {
				t.Errorf("%q names the test %q, which does not exist", cells[0], test)
			} else if strings.HasSuffix(test, ".txt") && !strings.Contains(contents(t, "master/core/testdata/"+test), "\nfailover\n") {
				t.Errorf("%q names the transcript %s, in which no leader dies", cells[0], test)
			}
		}
	}
	if rows < 12 {
		t.Errorf("only %d answers have a row", rows)
	}
	for _, row := range rights.Table {
		if service, call := path.Split(row.Call); row.Changes && strings.HasPrefix(service, "/tender.v1.") && !calls[call] {
			t.Errorf("what %s answers has no row: where does its promise live?", call)
		}
	}
}

// namesOfTests returns the names of all tests, and of all transcripts.
func namesOfTests(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > 2:
			return filepath.SkipDir
		case strings.HasSuffix(path, ".txt") && strings.Contains(path, "/testdata/"):
			names[entry.Name()] = true
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(text)) {
				if rest, is := strings.CutPrefix(line, "func Test"); is {
					name, _, _ := strings.Cut(rest, "(")
					names["Test"+name] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
