package tidy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
)

// TestReasonsAreMadeOrReserved: docs/protocol.md lists every reason, and says of those that nothing makes that they
// are reserved. The sources know by their constants who makes which.
func TestReasonsAreMadeOrReserved(t *testing.T) {
	text, err := os.ReadFile("../../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, lists, found := strings.Cut(string(text), "## Reasons")
	made, reserved, found2 := strings.Cut(lists, "Reserved, and made by nothing yet:")
	if !found || !found2 {
		t.Fatal("docs/protocol.md lists no reasons, or none that are reserved")
	}
	sources, err := read(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	used := reasonsUsed(sources)
	for reason := api.ReasonExecutorTerminated; !strings.HasPrefix(reason.String(), "REASON_"); reason++ {
		name := reason.String()
		inMade, inReserved := listsWord(made, name), listsWord(reserved, name)
		switch {
		case inMade == inReserved:
			t.Errorf("docs/protocol.md lists %s in both of its lists of reasons, or in neither", name)
		case inReserved && used[name]:
			t.Errorf("%s is made somewhere; docs/protocol.md says that it is reserved", name)
		case inMade && !used[name]:
			t.Errorf("%s is made nowhere; docs/protocol.md does not say that it is reserved", name)
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
