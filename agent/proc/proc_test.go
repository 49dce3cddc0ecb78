package proc

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestThisProcess(t *testing.T) {
	stat, err := Read(os.Getpid())
	if err != nil || stat.PID != os.Getpid() || stat.Parent != os.Getppid() || stat.Start == 0 || stat.Dead {
		t.Fatalf("%+v, %v", stat, err)
	}
	if !Alive(stat.PID, stat.Start) || Alive(stat.PID, stat.Start+1) {
		t.Error("who is alive is told by number and start")
	}
	all, err := All()
	if err != nil || !slices.ContainsFunc(all, func(p Stat) bool { return p.PID == stat.PID && p.Start == stat.Start }) {
		t.Errorf("not among %d, %v", len(all), err)
	}
}

func TestTheDeadAreDead(t *testing.T) {
	child := exec.Command("cat")
	pipe, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	stat, err := Read(child.Process.Pid)
	if err != nil || !Alive(stat.PID, stat.Start) {
		t.Errorf("%+v, %v", stat, err)
	}
	pipe.Close()
	if _, err := output.Read(make([]byte, 1)); err == nil {
		t.Error("it said something")
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if Alive(stat.PID, stat.Start) {
		t.Error("it lives on")
	}
}

// Who runs a program has an environment, if only an empty one, and it is read whole; who is gone or of the kernel has none.
func TestEnvironments(t *testing.T) {
	bare := exec.Command("cat")
	bare.Env = []string{}
	long := exec.Command("cat")
	long.Env = []string{"LONG=" + strings.Repeat("x", 100_000), "LAST=1"}
	inLong, err := long.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := long.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = inLong.Close() // it ends with that
		_ = long.Wait()
	}()
	if got, known := Environ(long.Process.Pid); runtime.GOOS == "linux" && (!known || !bytes.HasSuffix(got, []byte("x\x00LAST=1\x00"))) {
		t.Errorf("%d bytes, known: %v", len(got), known)
	}
	in, err1 := bare.StdinPipe()
	out, err2 := bare.StdoutPipe()
	if err := errors.Join(err1, err2, bare.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close() // it ends with that
		_ = bare.Wait()
	}()
	if _, err := in.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // what answers runs
		t.Fatal(err)
	}
	for _, pid := range []int{os.Getpid(), bare.Process.Pid, 2, 1 << 30} {
		if got, known := Environ(pid); !known || len(got) > 0 && pid != os.Getpid() {
			t.Errorf("process %d has %q, known: %v", pid, got, known)
		}
	}
}
