package check_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tenderhq/tender/internal/mesos/check"
)

// Of each framework it is told what would not work, once, with the tasks that it concerns.
func TestRead(t *testing.T) {
	text, err := os.ReadFile("testdata/state.json")
	if err != nil {
		t.Fatal(err)
	}
	frameworks, err := check.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, f := range frameworks {
		fmt.Fprintf(&got, "%s %s: %d tasks, works: %t\n", f.Name, f.ID, f.Tasks, f.Works())
		for _, finding := range f.Findings {
			what, _, _ := strings.Cut(finding.What, ": there is no equivalent")
			fmt.Fprintf(&got, "  %s %t %v\n", what, finding.Hard, finding.Tasks)
		}
	}
	want := `chronos a: 1 tasks, works: true
  its failover timeout becomes 2160h0m0s false []
marathon b: 5 tasks, works: false
  a network of the container's own is not supported true [web.1 web.2]
  a volume of the host at another absolute path is not supported true [db.1]
  an image for an executor of one's own is not supported true [executor own]
spark c: 0 tasks, works: false
  'FrameworkInfo.roles' contains invalid role: "*" and "default" are one role here true []
well d: 1 tasks, works: true
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", &got, want)
	}
	for _, wrong := range []string{"", "<html>", "[]"} {
		if _, err := check.Read([]byte(wrong)); err == nil {
			t.Errorf("%q was read", wrong)
		}
	}
}
