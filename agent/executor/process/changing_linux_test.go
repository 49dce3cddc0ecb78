package process

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/internal/testing/program"
)

// A process that executes one program after the other, and ignores all signals that it can, is still found and killed.
func TestTheRestlessAreFound(t *testing.T) {
	restless, sandbox := program.Restless(t), t.TempDir()
	for range 30 {
		var all []proc.Stat
		for range 4 {
			daemon := exec.Command("sh", "-c", `trap "" TERM HUP INT QUIT USR1 USR2; exec `+restless)
			daemon.Env = append(os.Environ(), "TENDER_EXECUTOR_SANDBOX="+sandbox)
			daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := daemon.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = daemon.Process.Kill()
				_ = daemon.Wait()
			}()
			for name := ""; !strings.HasPrefix(name, "restless"); runtime.Gosched() {
				text, err := os.ReadFile("/proc/" + strconv.Itoa(daemon.Process.Pid) + "/comm")
				if err != nil {
					t.Fatal(err)
				}
				name = string(text)
			}
			stat, err := proc.Read(daemon.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, stat)
		}
		if err := killAll(t, &Launcher{}, executor.Owner{Sandbox: sandbox}); err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			if proc.Alive(one.PID, one.Start) {
				t.Errorf("%+v lives on", one)
			}
		}
	}
}
