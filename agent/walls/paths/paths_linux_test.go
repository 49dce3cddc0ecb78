package paths

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// The first thread stands for the whole process, so no test may restrict it.
func init() { runtime.LockOSThread() }

// restricted runs a line of a shell from a thread that was restricted before, and returns what the line has written.
func restricted(t *testing.T, restrict func() error, line, folder string) string {
	t.Helper()
	shell := exec.Command("/bin/sh", "-c", line)
	shell.Dir = folder
	said := make(chan string, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := restrict(); err != nil {
			said <- err.Error()
			return
		}
		text, err := shell.CombinedOutput()
		if err != nil {
			text = append(text, err.Error()...)
		}
		said <- string(text)
	}()
	return <-said
}

// A confined program does as it likes in its own folders, reads and runs the machine's files, and can use nothing in
// the rest of the hidden folder, by whatever path. The same holds for programs that it starts. Other threads are not
// confined.
func TestConfine(t *testing.T) {
	lacking, err := Try()
	if err != nil {
		t.Skip(err)
	}
	top := t.TempDir()
	hidden, beside := filepath.Join(top, "agent"), filepath.Join(top, "beside")
	own, other, volume := filepath.Join(hidden, "own"), filepath.Join(hidden, "other"), filepath.Join(hidden, "volume")
	for _, folder := range []string{own, other, volume, beside} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{filepath.Join(other, "secret"), filepath.Join(beside, "file"), filepath.Join(hidden, "checkpoint")} {
		if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"volume": volume, "trick": other} {
		if err := os.Symlink(to, filepath.Join(own, name)); err != nil {
			t.Fatal(err)
		}
	}
	const line = `works() { "$@" > /dev/null 2>&1 || echo "can't: $*"; }
		fails() { if "$@" > /dev/null 2>&1; then echo "can: $*"; fi; }
		works touch file; works mkdir folder; works mv file folder/file; works ln folder/file hard; works ln -s / root; works rm -r folder
		works touch volume/file; works cat volume/file; works mv hard volume/hard
		works ls /usr; works cat BESIDE/file; works sh -c 'echo x > /dev/null'; works sh -c 'echo x >> /proc/self/comm'
		works touch BESIDE/new
		for path in HIDDEN HIDDEN/checkpoint HIDDEN/other HIDDEN/other/secret trick/secret ../other/secret /proc/self/cwd/../other/secret; do
			fails ls $path/; fails cat $path; fails touch $path/new; fails sh -c "echo x >> $path"; fails mv $path moved; fails ln $path hard; fails rm -r $path
		done
		fails cat root/HIDDEN/checkpoint
		fails touch /etc/tender-test
		fails mkdir HIDDEN/new; fails mv file HIDDEN/other/file; fails touch TOP/new
		(works touch later; fails cat HIDDEN/checkpoint) & wait`
	reach := Reach{Hidden: hidden, Own: []string{own, volume}}
	said := restricted(t, reach.Confine, strings.NewReplacer("HIDDEN", hidden, "BESIDE", beside, "TOP", top).Replace(line), own)
	if said != "" {
		t.Errorf("it says\n%s", said)
	}
	if len(lacking) < 2 {
		said = restricted(t, reach.Confine, "if truncate -s 0 "+hidden+"/checkpoint 2> /dev/null; then echo truncated; fi", own)
		if text, err := os.ReadFile(filepath.Join(hidden, "checkpoint")); said != "" || err != nil || string(text) != "secret" {
			t.Errorf("%s; what is left is %q, %v", said, text, err)
		}
	}
}

// A separated program can send signals to processes that it has started, and to no others.
func TestSeparate(t *testing.T) {
	if lacking, err := Try(); err != nil || len(lacking) > 0 {
		t.Skip("this kernel's Landlock knows nothing of signals ", err)
	}
	line := "sleep 1000 & kill -0 $! || echo not its own; kill $!; if kill -0 " + strconv.Itoa(os.Getpid()) + " 2> /dev/null; then echo another; fi"
	if said := restricted(t, Separate, line, "/"); said != "" {
		t.Error(said)
	}
}
