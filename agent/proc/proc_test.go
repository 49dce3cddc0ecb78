package proc

import (
	"os"
	"os/exec"
	"slices"
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
