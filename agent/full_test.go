package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// A task fills the disk of its agent and goes on writing, so that it takes whatever becomes free. It writes outside its
// sandbox, because a full disk may make the agent delete that when the task ends. The agent goes on: launches are
// DROPPED at once, the task can be killed, a leader of a newer term is obeyed, and another process takes over. With
// free space it works as before (R14).
func TestDiskFilledByATask(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	mount := t.TempDir()
	if said, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", mount).CombinedOutput(); err != nil {
		t.Skipf("this machine mounts no tmpfs: %v: %s", err, said)
	}
	t.Cleanup(func() {
		if said, err := exec.Command("umount", "-l", mount).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, said)
		}
	})
	master := newScript(t)
	config := testConfig(t, master.address)
	config.DataDir = filepath.Join(mount, "agent")
	config.RecoveryTimeout = 0
	a := run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	full, zeros := filepath.Join(t.TempDir(), "full"), filepath.Join(mount, "zeros")
	if err := syscall.Mkfifo(full, 0o600); err != nil {
		t.Fatal(err)
	}
	master.launch(command("fills", fmt.Sprintf(
		"cat /dev/zero > %[1]s 2>/dev/null; echo > %[2]s; while :; do cat /dev/zero >> %[1]s 2>/dev/null; sleep 0.01; done", zeros, full)))
	master.status("fills", api.TaskRunning)
	for _, state := range a.runs.all() {
		t.Cleanup(func() { _ = syscall.Kill(-state.process.ID().PID, syscall.SIGKILL) })
	}
	if _, err := os.ReadFile(full); err != nil { // it ends when the task has written
		t.Fatal(err)
	}

	refused := func(id api.TaskID) bool {
		master.launch(command(id, "exit 0"))
		return await(master, string(id), func(c protocol.StatusUpdate) bool {
			return c.Status.Task == id && c.Status.State.Terminal()
		}).Status.Reason == api.ReasonDiskFull
	}
	if !refused("first") && !refused("second") { // the first record shows that it is full
		t.Error("the disk is full, and two launches were taken on")
	}
	master.say(protocol.KillTask{TaskRef: api.TaskRef{Framework: "f1", Task: "fills"}})
	master.status("fills", api.TaskKilled)

	for term := range 3 {
		master.forget()
		master.mutex.Lock()
		master.term.Number += uint64(term) + 1
		master.mutex.Unlock()
		master.drop()
		await(master, "report", func(c protocol.AgentReport) bool { return c.Last })
	}
	a.end()
	master.forget()
	a = run(t, config)
	await(master, "report", func(c protocol.AgentReport) bool { return c.Last })
	if !refused("third") {
		t.Error("the next agent took a launch on")
	}
	a.end()
	if err := os.Remove(zeros); err != nil {
		t.Fatal(err)
	}
	master.forget()
	run(t, config)
	await(master, "report", func(c protocol.AgentReport) bool { return c.Last })
	if refused("fourth") {
		t.Error("there is room again, and a launch was refused")
	}
	master.shutDown()
}
