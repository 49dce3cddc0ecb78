package tidy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
)

// TestReasonsAreMade: docs/protocol.md lists every reason, and something makes it. The sources know by their constants
// who makes which.
func TestReasonsAreMade(t *testing.T) {
	text, err := os.ReadFile("../../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(text), "## Reasons")
	if !found {
		t.Fatal("docs/protocol.md lists no reasons")
	}
	sources, err := read(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	used := reasonsUsed(sources)
	for reason := api.ReasonExecutorTerminated; !strings.HasPrefix(reason.String(), "REASON_"); reason++ {
		name := reason.String()
		if !listsWord(list, name) {
			t.Errorf("docs/protocol.md does not list the reason %s", name)
		}
		if !used[name] {
			t.Errorf("%s is made nowhere; a reason that nothing makes does not belong in the list", name)
		}
	}
}

func listsWord(text, word string) bool {
	return regexp.MustCompile(`\b` + word + `\b`).MatchString(text)
}

// reasonsUsed are the names of the reasons whose constants stand in a source that people write, outside of package api.
func reasonsUsed(sources *tree) map[string]bool {
	constant := regexp.MustCompile(`\bapi\.Reason([A-Z]\w+)`)
	hump := regexp.MustCompile(`([a-z])([A-Z])`)
	used := map[string]bool{}
	for _, f := range sources.files {
		if f.test || f.generated {
			continue
		}
		for _, match := range constant.FindAllStringSubmatch(f.text, -1) {
			name := strings.ToUpper(hump.ReplaceAllString(match[1], "${1}_${2}"))
			used[name] = true
		}
	}
	return used
}
