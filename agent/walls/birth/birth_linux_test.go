package birth

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// run starts a shell with these groups, and returns what it has written.
func run(t *testing.T, script string, change func(*Start)) (said string, err error) {
	t.Helper()
	null, output := files(t)
	start := Start{
		Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: []string{"NAME=value"}, Folder: "/",
		Files: [3]uintptr{null.Fd(), output.Fd(), output.Fd()},
	}
	if change != nil {
		change(&start)
	}
	pid, err := start.Process()
	if err != nil {
		return "", err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status != 0 {
		t.Errorf("%v, status %x", err, status)
	}
	text, err := os.ReadFile(output.Name())
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text)), nil
}

// files opens what a child reads and what it writes to.
func files(t *testing.T) (null, output *os.File) {
	t.Helper()
	null, unread := os.Open(os.DevNull)
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err := errors.Join(unread, err); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = null.Close(), output.Close() }) // everything is written
	return null, output
}

// TestMain runs the tests with a limit of open files that Go raises when the program begins.
func TestMain(m *testing.M) {
	const limited = "TENDER_TEST_LIMITED"
	if os.Getenv(limited) == "" {
		again := exec.Command("/bin/sh", append([]string{"-c", `ulimit -S -n 300; exec "$0" "$@"`, os.Args[0]}, os.Args[1:]...)...)
		again.Env, again.Stdout, again.Stderr = append(os.Environ(), limited+"=yes"), os.Stdout, os.Stderr
		if again.Run() != nil {
			os.Exit(1)
		}
		return
	}
	m.Run()
}

// A child is as one that package syscall starts: in its folder, with these files and no others, as the leader of a group,
// with the limit of open files and the signals that this process began with.
func TestAChild(t *testing.T) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGUSR1)
	defer signal.Stop(caught)
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	script := `pwd; echo $NAME; ls /proc/self/fd | wc -l; test $(cut -d' ' -f5 /proc/$$/stat) = $$ && echo leads; ulimit -S -n; grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status`
	null, output := files(t)
	process, err := os.StartProcess("/bin/sh", []string{"sh", "-c", script}, &os.ProcAttr{
		Dir: "/", Env: []string{"NAME=value"}, Files: []*os.File{null, output, output}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := process.Wait(); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(output.Name())
	if err != nil {
		t.Fatal(err)
	}
	said, err := run(t, script, nil)
	if err != nil || said != strings.TrimSpace(string(want)) || !strings.Contains(said, "\n300\n") {
		t.Errorf("%v\n%s\nwant\n%s", err, said, want)
	}
}

// Why a program was not executed is told, and by whom; nothing of the child is left.
func TestWhatIsNotExecuted(t *testing.T) {
	if _, err := run(t, "", func(s *Start) { s.Path = "/no/such/program" }); !errors.Is(err, syscall.ENOENT) {
		t.Error(err)
	}
	if _, err := run(t, "", func(s *Start) { s.Folder = "/no/such/folder" }); !errors.Is(err, syscall.ENOENT) {
		t.Error(err)
	}
	if _, err := run(t, "", func(s *Start) { s.Argv[1] = "\x00" }); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	if _, err := run(t, "", func(s *Start) { s.Files[1] = 1 }); !errors.Is(err, syscall.EBADF) {
		t.Error("the child would overwrite a file that it still needs:", err)
	}
	var astray *AstrayError
	if _, err := run(t, "", func(s *Start) { s.Groups.Entrance = []int{-1} }); !errors.As(err, &astray) || !errors.Is(err, syscall.EBADF) {
		t.Error(err)
	}
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Error("there are children left:", err)
	}
}

// A child enters its groups before it executes anything: it writes to each file of the entrance.
func TestTheEntrance(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "tasks"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	said, err := run(t, "cat "+file.Name(), func(s *Start) { s.Groups.Entrance = []int{int(file.Fd()), int(file.Fd())} })
	if said != "00" || err != nil {
		t.Errorf("%q, %v", said, err)
	}
}

// Many are started at once while memory is allocated and collected.
func TestManyAtOnce(t *testing.T) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				word := fmt.Sprint("word", i, "-", j, strings.Repeat("x", 1000))
				if said, err := run(t, `echo "$1"`, func(s *Start) { s.Argv = append(s.Argv, "sh", word) }); said != word || err != nil {
					t.Errorf("%q, %v", said, err)
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkStart(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	files := [3]uintptr{null.Fd(), null.Fd(), null.Fd()}
	for b.Loop() {
		pid, err := Start{Path: "/bin/true", Argv: []string{"true"}, Folder: "/", Files: files}.Process()
		if err == nil {
			_, err = syscall.Wait4(pid, nil, 0, nil)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
