package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/agent/walls/paths"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/program"
)

// unprivileged says whether this test does not run as root. If it does, the test is run again as nobody, by a copy of
// this program in a folder of nobody's.
func unprivileged(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	nobody, err := entry.Users{}.Find("nobody")
	if err != nil {
		t.Skip(err)
	}
	folder, err := os.MkdirTemp("", "tender-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	self := filepath.Join(folder, "agent.test")
	if err := program.Copy(self); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(folder, nobody.UID, nobody.GID); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	child.Dir, child.Env = folder, append(os.Environ(), "TMPDIR="+folder, "HOME="+folder)
	runtime.LockOSThread() // the child dies with the thread
	defer runtime.UnlockOSThread()
	child.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(nobody.UID), Gid: uint32(nobody.GID)}, Pdeathsig: syscall.SIGKILL,
	}
	said, err := child.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("as nobody: %v\n%s", err, said)
	case strings.Contains(string(said), "--- SKIP: "+t.Name()):
		t.Skipf("%s", said)
	case !strings.Contains(string(said), "--- PASS: "+t.Name()):
		t.Errorf("nothing was run as nobody:\n%s", said)
	}
	return false
}

// hostile is what a task tries to do to the agent and to a task beside it. In its own sandbox everything must work.
const hostile = `
	works() { "$@" >/dev/null 2>&1 || echo "own: $*" >> failed; }
	fails() { if "$@" >/dev/null 2>&1; then echo "leak: $*" >> failed; fi; }
	works touch file
	works mkdir folder
	works mv file folder/file
	works kill -0 $$
	works cat /proc/self/environ
	works ls /usr
	works sh -c "echo x > /dev/null"
	for name in . lock identity checkpoint.log VOLUMES sandboxes sandboxes/f1/command sandboxes/f1/command/stdout \
		sandboxes/f1/command/tasks sandboxes/f1/command/tasks/t1 sandboxes/f1/command/tasks/t1/file; do
		fails ls DATA/$name/
		fails cat DATA/$name
		fails touch DATA/$name/new
		fails sh -c "echo x >> DATA/$name"
		fails mv DATA/$name moved
		fails ln DATA/$name hard
		fails truncate -s 0 DATA/$name
	done
	for pid in PIDS; do
		fails cat /proc/$pid/environ
		fails cat /proc/$pid/maps
		fails cat /proc/$pid/cwd/file
		fails readlink /proc/$pid/fd/1
		fails ls /proc/$pid/root/
	done
	for pid in FOREIGN; do
		fails kill -0 $pid
		fails kill -9 $pid
	done
	fails test -n "$PASSWORD"
	touch done`

// An agent that is not root keeps its tasks out of its folder and of each other's sandboxes, and keeps those of a
// framework from signalling the agent and other frameworks' tasks. A task reaches what it is given outside its sandbox.
func TestLandlockKeepsTasksApart(t *testing.T) {
	lacking, err := paths.Try()
	if err != nil {
		t.Skip(err)
	}
	if len(lacking) > 0 {
		t.Skip("this kernel can't do all of it: ", lacking)
	}
	if !unprivileged(t) {
		return
	}
	master := newScript(t)
	config := testConfig(t, master.address)
	config.Walls.Landlock = true
	a := run(t, config)
	first := await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	if isolation := first.Agent.Attributes[walls.Attribute]; !slices.Contains(strings.Split(isolation, ","), paths.Ability) {
		t.Errorf("isolation is %q", isolation)
	}
	sandbox := func(of, task string) string { return filepath.Join(config.DataDir, "sandboxes", of, "tasks", task) }
	victim := command("t1", "echo secret > file; echo $$ > pid; exec sleep 1000")
	victim.Command.Env = map[string]string{"PASSWORD": "secret"}
	launchOf(master, "f1", victim)
	master.status("t1", api.TaskRunning)
	awaitFile(t, filepath.Join(sandbox("f1/command", "t1"), "pid"))
	pid := textOf(t, filepath.Join(sandbox("f1/command", "t1"), "pid"))
	self, executor := strconv.Itoa(os.Getpid()), strconv.Itoa(a.runs.all()[0].process.ID().PID)
	all := pid + " " + executor + " " + self
	attack := func(id api.TaskID, volumes, foreign string) api.Task {
		return command(id, strings.NewReplacer("DATA", config.DataDir, "VOLUMES", volumes, "PIDS", all, "FOREIGN", foreign).Replace(hostile))
	}
	launchOf(master, "f2", attack("t2", "volumes", all))
	launchOf(master, "f1", attack("t3", "volumes", self))     // a task of the same framework may end its neighbour
	launchOf(master, "f3", asExecutor(attack("t4", "", all))) // a framework's own executor reaches all volumes
	master.status("t2", api.TaskFinished)
	master.status("t3", api.TaskFinished)
	master.status("t4", api.TaskFailed)
	for _, folder := range []string{sandbox("f2/command", "t2"), sandbox("f1/command", "t3"), filepath.Join(config.DataDir, "sandboxes/f3/own")} {
		if text, err := os.ReadFile(filepath.Join(folder, "failed")); err == nil {
			t.Errorf("%s: %s", folder, text)
		}
		if _, err := os.Stat(filepath.Join(folder, "done")); err != nil {
			t.Error(err)
		}
	}
	givenIsReached(t, master, config)
	master.say(protocol.KillTask{TaskRef: api.TaskRef{Framework: "f1", Task: "t1"}, Reason: api.ReasonKilledByFramework})
	master.status("t1", api.TaskKilled)
	master.shutDown()
}

// asExecutor turns a task's command into a framework's own executor that does the same and ends.
func asExecutor(task api.Task) api.Task {
	task.Executor, task.Command = &api.Executor{ID: "own", Command: *task.Command}, nil
	return task
}

// givenIsReached has tasks use what they are given outside their sandboxes: a volume, the folder of their group, and
// signals to their checks.
func givenIsReached(t *testing.T, master *script, config Config) {
	t.Helper()
	disk := api.NewResources(api.Resource{Label: api.Label{Name: "disk", Reserved: "default", Volume: "v1"}, Scalar: 1000})
	keeper := command("keeper", "echo gold >> volumes/v1/file && ls "+config.DataDir+"/volumes/v1")
	keeper.Resources = keeper.Resources.Plus(disk)
	master.say(protocol.CreateVolume{Volume: protocol.Volume{Resource: disk.Items()[0]}}, master.launching(keeper))
	master.status("keeper", api.TaskFinished)
	other := command("other", "cat "+config.DataDir+"/volumes/v1/file && echo stolen")
	launchOf(master, "f1", other)
	master.status("other", api.TaskFailed)
	launchGroup(master,
		command("g1", "until test -s $TENDER_TASK_SHARED/word; do sleep 0.01; done; mv $TENDER_TASK_SHARED/word heard"),
		command("g2", "echo hello > word; mv word $TENDER_TASK_SHARED/word"))
	master.status("g1", api.TaskFinished)
	master.status("g2", api.TaskFinished)
	if said := textOf(t, filepath.Join(config.DataDir, "sandboxes/f1/command/tasks/g1/heard")); said != "hello" {
		t.Errorf("its group told it %q", said)
	}
	look := api.Command{Shell: fmt.Sprintf("! cat %s/lock && kill -0 $(cat pid) && touch looked", config.DataDir)}
	checked := command("checked", "echo $$ > pid; until test -e looked; do sleep 0.01; done")
	checked.Checks = []api.Check{{Readiness: true, Command: &look, Interval: 100 * time.Millisecond, Failures: 1000}}
	launchOf(master, "f1", checked)
	master.status("checked", api.TaskFinished)
}

// Landlock is for agents that are not root; an agent that is root says so.
func TestLandlockOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this is about root")
	}
	config := testConfig(t, newScript(t).address)
	config.Walls.Landlock = true
	a, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(t.Context()); !api.Is(err, api.Unsupported) || !strings.Contains(err.Error(), "agents that are not root") {
		t.Error(err)
	}
}
