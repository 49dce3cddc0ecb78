package cli_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tenderhq/tender/framework/jobs/jobfile"
)

// onlyInRun are the flags of 'tender run' that no field of a job file says; docs/jobs.md says why.
var onlyInRun = []string{"--prefer", "--detach", "--retry", "--quiet"}

// TestEveryFlagOfRunIsDecided: each flag of 'tender run' is a field of job files, or is listed as one that is not; and
// the table of fields names no flag that there is not.
func TestEveryFlagOfRunIsDecided(t *testing.T) {
	help, err := os.ReadFile("testdata/help.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, about, is := strings.Cut(string(help), "\n$ tender run --help\n")
	about, _, _ = strings.Cut(about, "\n$ ")
	about, _, _ = strings.Cut(about, "\nGlobal Flags:")
	var flags []string
	for _, match := range regexp.MustCompile(`(?m)^ {2,6}(?:-[a-z], )?(--[a-z-]+)`).FindAllStringSubmatch(about, -1) {
		flags = append(flags, match[1])
	}
	if !is || len(flags) < 20 {
		t.Fatalf("the help of 'tender run' has %d flags", len(flags))
	}
	var decided []string
	for _, field := range jobfile.Fields() {
		flag, _, _ := strings.Cut(field.Flag, " ")
		decided = append(decided, flag)
		if strings.HasPrefix(flag, "--") && !slices.Contains(flags, flag) {
			t.Errorf("%s stands for %s, which 'tender run' has not", field.Name, flag)
		}
	}
	for _, flag := range flags {
		if !slices.Contains(decided, flag) && !slices.Contains(onlyInRun, flag) && flag != "--help" {
			t.Errorf("no field of a job file says %s; decide, and say so in fields.txt or in docs/jobs.md", flag)
		}
	}
	page, err := os.ReadFile("../../../docs/jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range onlyInRun {
		if !strings.Contains(string(page), "`"+flag+"`") {
			t.Errorf("docs/jobs.md does not say why a job file can't say %s", flag)
		}
	}
}
