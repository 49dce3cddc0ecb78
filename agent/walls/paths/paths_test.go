package paths

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The files and folders beside the hidden folder, and beside those on the way to it, are allowed. The folders on the
// way are not, and within the hidden folder only a program's own folders are.
func TestRules(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	hidden, beside, own := filepath.Join(top, "data", "agent"), filepath.Join(top, "beside"), filepath.Join(top, "data", "agent", "sandbox")
	for _, folder := range []string{own, beside, filepath.Join(hidden, "other"), hidden + "-2"} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(top, "link")
	if err := os.Symlink(hidden, link); err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{hidden, link} {
		rules, err := Reach{Hidden: named, Own: []string{own}}.Rules()
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range rules {
			if isWithin(hidden, rule.Path) || isWithin(rule.Path, hidden) && rule.Path != own || rule.Path == link {
				t.Errorf("%s is allowed", rule.Path)
			}
		}
		usr := "/usr"
		if isWithin(hidden, usr) {
			usr = "/etc" // the folder for temporary files is in /usr
		}
		temporary := isWithin(top, "/tmp") || isWithin(top, "/var/tmp")
		for _, want := range []Rule{{own, true}, {beside, temporary}, {hidden + "-2", temporary}, {usr, false}, {"/dev", true}, {"/proc", true}} {
			if _, err := os.Stat(want.Path); err == nil && !slices.Contains(rules, want) {
				t.Errorf("there is no rule %+v", want)
			}
		}
	}
	if _, err := (Reach{Hidden: filepath.Join(top, "missing")}).Rules(); err == nil {
		t.Error("a folder that is not there can be hidden")
	}
}

// Too many files beside the hidden folder are refused, because each start would look at them all.
func TestRulesAreBounded(t *testing.T) {
	top := t.TempDir()
	hidden := filepath.Join(top, "agent")
	if err := os.Mkdir(hidden, 0o700); err != nil {
		t.Fatal(err)
	}
	one := filepath.Join(top, "one")
	if err := os.WriteFile(one, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range besideMax {
		if err := os.Link(one, filepath.Join(top, strconv.Itoa(i))); err != nil { // a link, which needs no file of its own
			t.Fatal(err)
		}
	}
	if _, err := (Reach{Hidden: hidden}).Rules(); err == nil || !strings.Contains(err.Error(), "more than 2000 files and folders lie beside") {
		t.Errorf("%v", err)
	}
}

// What a version of Landlock can't prevent is said. A version whose rules break ordinary programs is not used.
func TestLacks(t *testing.T) {
	for version, want := range map[int]string{
		2: "tasks can empty files that they can't read, the agent's and each other's: Landlock keeps them from it since Linux 6.2;" +
			"tasks can send signals to the agent, and to those of others: Landlock keeps them from it since Linux 6.12",
		3: "tasks can send signals to the agent, and to those of others: Landlock keeps them from it since Linux 6.12",
		5: "tasks can send signals to the agent, and to those of others: Landlock keeps them from it since Linux 6.12",
		6: "", 7: "", 99: "",
	} {
		got, err := lacks(version)
		if err != nil || strings.Join(got, ";") != want {
			t.Errorf("version %d: %q, %v", version, got, err)
		}
	}
	if _, err := lacks(1); err == nil {
		t.Error("version 1 is taken")
	}
}
