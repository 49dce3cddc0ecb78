package entry

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestParseRlimits(t *testing.T) {
	words := []string{"nofile=1024:4096", "core=unlimited", "fsize=1048576"}
	limits, err := ParseRlimits(words)
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range limits {
		if one.String() != words[i] {
			t.Errorf("%v, not %s", one, words[i])
		}
	}
	for _, word := range []string{"", "nofile", "nofile=", "nofile=-1", "nofile=1k", "=5", "nofile=1:2:3", "nofile=99999999999999999999"} {
		if got, err := ParseRlimits([]string{word}); err == nil {
			t.Errorf("%q is %v", word, got)
		}
	}
}

func TestCheckRlimits(t *testing.T) {
	for _, one := range []struct {
		words []string
		wrong string
	}{
		{[]string{"nofile=1024:2048", "core=0"}, ""},
		{[]string{"as=1000"}, "limit as=1000: there is none of that name; there are core, fsize, memlock, nofile, nproc, stack"},
		{[]string{"core=0", "core=1"}, "limit core=1: it is named twice"},
		{[]string{"nofile=2048:1024"}, "limit nofile=2048:1024: the first number is what counts, and the second, which is smaller, the most that a process may raise it to"},
		{[]string{"nofile=3"}, "limit nofile=3: executors live by it too, and need at least 256"},
	} {
		limits, err := ParseRlimits(one.words)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := limits.Check(); err != nil {
			got = err.Error()
		}
		if got != one.wrong {
			t.Errorf("%v: %s", one.words, got)
		}
	}
	most, err := mostFiles()
	if err != nil {
		t.Skip(err)
	}
	err = Rlimits{{"nofile", 1024, most + 1}}.Check()
	if err == nil || maySetLimits() != strings.Contains(err.Error(), "this machine lets a process have no more than ") {
		t.Errorf("%v", err)
	}
}

// A process that waits is given limits, and what it starts has them too.
func TestGiveRlimits(t *testing.T) {
	child := exec.Command("/bin/sh", "-c", `read -r _; ulimit -S -c; ulimit -S -n; ulimit -H -n`)
	gate, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	child.Stdout = said
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := (Rlimits{{"core", 0, 0}, {"nofile", 300, 400}}).Give(child.Process.Pid); err != nil {
		t.Error(err)
	}
	if _, err := gate.Write([]byte("\n")); err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(said.Name()); err != nil || string(text) != "0\n300\n400\n" {
		t.Errorf("%q, %v", text, err)
	}
}
