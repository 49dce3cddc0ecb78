package agent

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/mounts"
	"github.com/tenderhq/tender/internal/testing/program"
)

// volumeOf returns 1 MB of disk in a volume.
func volumeOf(id api.VolumeID) api.Resources {
	return api.NewResources(api.Resource{Label: api.Label{Name: "disk", Reserved: "default", Volume: id}, Scalar: 1000})
}

// ownExecutor returns a framework's own executor, whose program is this test's.
func ownExecutor(t *testing.T) *api.Executor {
	t.Helper()
	return &api.Executor{ID: "own", Command: api.Command{Argv: []string{program.ForAll(t)}, Env: map[string]string{ownEnv: "yes", "PASSWORD": "secret"}}}
}

// tries defines shell functions for the lines of tasks. They print nothing if everything is as it should be.
const tries = `works() { "$@" > /dev/null 2>&1 || echo "own: $*"; }
fails() { if "$@" > /dev/null 2>&1; then echo "leak: $*"; fi; }
`

// A framework's own executor tries everything that could harm its agent and others. In its namespaces none of it works,
// while volumes of later tasks are shown to it. It outlives its agent, comes back to the socket of the next one, and
// leaves neither process nor mount.
func TestOwnExecutorsHaveNamespaces(t *testing.T) {
	master := newScript(t)
	config := spacesConfig(t, master)
	config.RecoveryTimeout = 0 // 15 minutes
	mounted := mounts.List(t, config.DataDir)
	first := run(t, config)
	root := cellsOf(t, first)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	victim := command("victim", "echo secret > file; echo $$ > pid; echo mark > /tmp/mark; exec sleep 1000")
	victim.Command.Env = map[string]string{"PASSWORD": "secret"}
	launchOf(master, "f1", victim)
	master.status("victim", api.TaskRunning)
	own := ownExecutor(t)
	task := func(id api.TaskID, line string) api.Task {
		return api.Task{ID: id, Executor: own, Resources: api.Scalars(0.1, 32), Data: []byte(tries + line)}
	}
	builtin := first.runs.all()[0].process.ID().PID
	launchOf(master, "f2", task("t1", strings.NewReplacer("DATA", config.DataDir, "PIDS", strconv.Itoa(os.Getpid())+" "+strconv.Itoa(builtin)).Replace(`
		works touch file
		works touch /tmp/mine
		works test -e ../../.tmp/mine
		works cat /proc/self/environ
		works test "$(id -u)" -ge 70000
		works test -S DATA/sockets/executors.sock
		fails test -e /tmp/mark
		for name in lock identity identity.spare checkpoint.log cache trash volumes volumes-of sandboxes/f1 sandboxes/f1/command; do
			fails test -e DATA/$name
		done
		for folder in DATA DATA/sandboxes DATA/sandboxes/f2 DATA/sockets; do
			fails touch $folder/new
		done
		for pid in PIDS; do
			fails test -e /proc/$pid
			fails kill -0 $pid
		done
		test "$(cat /proc/[0-9]*/status 2>/dev/null | grep ^Uid: | sort -u | wc -l)" = 1 || echo "sees processes of others"
		fails umount DATA
		fails sh -c "echo 1 > /proc/sys/kernel/panic"
		fails touch /dev/shm/../new
		test -e /dev/kmsg && echo "sees the machine's devices"
		true`)))
	if ended := master.status("t1", api.TaskFinished); string(ended.Data) != "" {
		t.Errorf("it says: %s", ended.Data)
	}
	var leader proc.Stat
	for _, one := range first.runs.all() {
		if one.run.Executor.Framework == "f2" {
			leader, _ = proc.Read(one.process.ID().PID)
		}
	}
	first.end()
	if leader.PID == 0 || !proc.Alive(leader.PID, leader.Start) {
		t.Fatalf("%+v is gone with its agent", leader)
	}
	config.RecoveryTimeout = -1
	master.forget()
	second := run(t, config)
	await(master, "report", func(c protocol.AgentReport) bool { return c.Last })
	disk := volumeOf("v1")
	later := task("t2", "echo gold > volumes/v1/file && cat "+config.DataDir+"/volumes/v1/file && echo $PPID")
	later.Resources = later.Resources.Plus(disk)
	master.say(protocol.CreateVolume{Volume: protocol.Volume{Resource: disk.Items()[0]}})
	launchOf(master, "f2", later)
	if ended := master.status("t2", api.TaskFinished); string(ended.Data) != "gold\n"+strconv.Itoa(leader.PID)+"\n" {
		t.Errorf("with its volume it says: %s", ended.Data)
	}
	if said := textOf(t, filepath.Join(config.DataDir, "volumes/v1/file")); said != "gold" {
		t.Errorf("its volume holds %q", said)
	}
	killExecutors(t, second)
	master.status("victim", api.TaskFailed)
	second.end()
	if err := syscall.Kill(leader.PID, 0); err == nil && proc.Alive(leader.PID, leader.Start) {
		t.Error("the executor lives")
	}
	if root.Exists() {
		t.Errorf("the agent has left %v", root.Children())
	}
	mounts.Check(t, config.DataDir, mounted)
}
