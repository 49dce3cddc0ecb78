package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// smallDisk mounts a small file system, and returns its folder.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	mount := t.TempDir()
	if said, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", mount).CombinedOutput(); err != nil {
		t.Skipf("this machine mounts no tmpfs: %v: %s", err, said)
	}
	t.Cleanup(func() {
		if said, err := exec.Command("umount", "-l", mount).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, said)
		}
	})
	return mount
}

// A task takes all inodes of its agent's disk, of which many bytes are free. Launches are DROPPED, none FAILED, and the
// agent says why. When the task has ended its sandbox is collected, though that must work without a free inode, and the
// agent starts tasks again. (R14, R15)
func TestDiskWithoutInodes(t *testing.T) {
	mount := smallDisk(t, "size=64m,nr_inodes=2000")
	master := newScript(t)
	config := testConfig(t, master.address)
	config.DataDir = filepath.Join(mount, "agent")
	run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	go1, full := filepath.Join(t.TempDir(), "go"), filepath.Join(t.TempDir(), "full")
	for _, pipe := range []string{go1, full} {
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	master.launch(command("fills", fmt.Sprintf("i=0; while (true > f$i) 2>/dev/null; do i=$((i+1)); done; echo > %s; cat %s", full, go1)))
	master.status("fills", api.TaskRunning)
	if _, err := os.ReadFile(full); err != nil { // it ends when the task has taken all
		t.Fatal(err)
	}
	for _, id := range []api.TaskID{"first", "second"} {
		master.launch(command(id, "exit 0"))
		ended := await(master, string(id), func(c protocol.StatusUpdate) bool { return c.Status.Task == id && c.Status.State.Terminal() })
		if ended.Status.State != api.TaskDropped || ended.Status.Reason != api.ReasonDiskFull {
			t.Errorf("%s ended %v (%v): %s", id, ended.Status.State, ended.Status.Reason, ended.Status.Message)
		}
	}
	await(master, "why", func(c protocol.AgentHeartbeat) bool { return strings.Contains(c.Unable, "inodes") })
	master.forget()
	if err := os.WriteFile(go1, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := await(master, "fills", func(c protocol.StatusUpdate) bool { return c.Status.Task == "fills" && c.Status.State.Terminal() })
	master.say(protocol.AcknowledgeStatus{TaskRef: api.TaskRef{Framework: "f1", Task: "fills"}, Number: ended.Status.Number})
	await(master, "room", func(c protocol.AgentHeartbeat) bool { return c.Unable == "" })
	master.launch(command("third", "exit 0"))
	master.status("third", api.TaskFinished)
	master.shutDown()
}

// A task fills the disk of its agent and goes on writing, so that it takes whatever becomes free. It writes outside its
// sandbox, because a full disk may make the agent delete that when the task ends. The agent goes on: launches are
// DROPPED at once, the task can be killed, a leader of a newer term is obeyed, and another process takes over. With
// free space it works as before (R14).
func TestDiskFilledByATask(t *testing.T) {
	mount := smallDisk(t, "size=32m")
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
