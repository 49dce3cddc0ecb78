package spaces

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/tenderhq/tender/agent/walls/entry"
)

// A hidden folder is revealed to a running program, as it is by then, and concealed again. No other process sees any of
// that, and the folder that hides the rest stays read-only.
func TestRevealAndConceal(t *testing.T) {
	w := build(t, "exit 0")
	w.await(w.helper)
	hidden, err := os.MkdirTemp("/var/lib", "tender-test-") // not in /tmp, which a task does not see anyway
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(hidden); err != nil {
			t.Error(err)
		}
	})
	sandbox, volume := filepath.Join(hidden, "sandbox"), filepath.Join(hidden, "volumes/v1")
	if err := errors.Join(os.Mkdir(sandbox, 0o700), os.MkdirAll(volume, 0o700)); err != nil {
		t.Fatal(err)
	}
	program := exec.Command("/bin/sleep", "1000")
	err = entry.Start(func() error {
		view := View{Hidden: []string{hidden}, Shown: []string{sandbox}, Temporary: sandbox}
		return errors.Join(view.Confine(User{UID: os.Geteuid(), GID: os.Getegid()}), program.Start())
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	pid := program.Process.Pid
	seen := func(path string) bool {
		_, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/root" + path)
		return err == nil
	}
	if !seen(sandbox) || seen(volume) {
		t.Fatal("it sees its sandbox not, or the volume")
	}
	for range 2 { // a second time there is nothing to do
		if err := entry.Start(func() error { return Reveal(pid, hidden, []string{volume}) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(volume, "later"), nil, 0o600); err != nil || !seen(filepath.Join(volume, "later")) {
		t.Errorf("it does not see what comes into the volume: %v", err)
	}
	if err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/root"+hidden+"/new", nil, 0o600); err == nil {
		t.Error("the folder can be written to")
	}
	for range 2 {
		if err := entry.Start(func() error { return Conceal(pid, hidden, []string{volume}) }); err != nil {
			t.Fatal(err)
		}
	}
	if seen(filepath.Join(volume, "later")) {
		t.Error("the volume is seen after it was concealed")
	}
	if _, err := os.Stat(filepath.Join(volume, "later")); err != nil {
		t.Errorf("it is gone for others: %v", err)
	}
	if err := entry.Start(func() error { return Reveal(os.Getpid(), hidden, []string{filepath.Join(hidden, "missing")}) }); err != nil {
		t.Errorf("who sees all needs nothing: %v", err)
	}
}
