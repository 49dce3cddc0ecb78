package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// usersConfig returns the configuration of an agent that runs as root and whose tasks run as other users, who can reach
// its folder.
func usersConfig(t *testing.T, master *script) Config {
	t.Helper()
	if os.Geteuid() != 0 || entry.Unprivileged() != entry.Dynamic {
		t.Skip("only root starts tasks as others, and this machine has no users from 70000 on for us")
	}
	config := testConfig(t, master.address)
	config.TaskUser = entry.Dynamic
	for folder := filepath.Dir(config.DataDir); folder != os.TempDir() && folder != "/"; folder = filepath.Dir(folder) {
		if err := os.Chmod(folder, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return config
}

// launchOf launches a task of a framework.
func launchOf(master *script, framework api.FrameworkID, task api.Task) {
	launch := master.launching(task).(protocol.LaunchTask)
	launch.Framework.ID = framework
	master.say(launch)
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func uidOf(t *testing.T, path string) (int, fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return entry.OwnerOf(info).UID, info.Mode().Perm()
}

// A task of one framework tries everything that could harm the agent and a task of another framework, or a task that
// its own framework runs for another owner. None of it works, while everything works in its own sandbox. (R60)
func TestTasksOfOthersAreOutOfReach(t *testing.T) {
	for name, test := range map[string]struct {
		framework                api.FrameworkID
		victimOwner, attackOwner string
	}{
		"framework":                   {framework: "f2"},
		"owner":                       {framework: "f1", victimOwner: "ann", attackOwner: "bob"},
		"owner and framework":         {framework: "f1", victimOwner: "ann"},
		"framework and owner":         {framework: "f1", attackOwner: "bob"},
		"same owner, other framework": {framework: "f2", victimOwner: "ann", attackOwner: "ann"},
	} {
		t.Run(name, func(t *testing.T) { tryToReach(t, test.framework, test.victimOwner, test.attackOwner) })
	}
}

// tryToReach runs a task of the framework f1 for victimOwner, and one of the framework for attackOwner that attacks it.
func tryToReach(t *testing.T, framework api.FrameworkID, victimOwner, attackOwner string) {
	master := newScript(t)
	config := usersConfig(t, master)
	a := run(t, config)
	first := await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	for _, ability := range []string{"users", "frameworks"} {
		if isolation := first.Agent.Attributes["isolation"]; !slices.Contains(strings.Split(isolation, ","), ability) {
			t.Errorf("isolation is %q, without %s", isolation, ability)
		}
	}
	victim := command("t1", "umask; echo secret > file; echo $$ > pid; exec sleep 1000")
	victim.Command.Env, victim.Owner = map[string]string{"PASSWORD": "secret"}, victimOwner
	launchOf(master, "f1", victim)
	master.status("t1", api.TaskRunning)
	sandbox := filepath.Join(config.DataDir, "sandboxes/f1/command/tasks/t1")
	awaitFile(t, filepath.Join(sandbox, "pid"))
	pid := textOf(t, filepath.Join(sandbox, "pid"))
	executor := strconv.Itoa(a.runs.all()[0].process.ID().PID)
	own := filepath.Join(config.DataDir, "sandboxes", string(framework), "command/tasks/t2")
	attack := command("t2", strings.NewReplacer("DATA", config.DataDir, "OWN", own, "PIDS", pid+" "+executor+" "+strconv.Itoa(os.Getpid())).Replace(`
		works() { "$@" >/dev/null 2>&1 || echo "own: $*" >> failed; }
		fails() { if "$@" >/dev/null 2>&1; then echo "leak: $*" >> failed; fi; }
		works touch file
		works test "$(cat file)" = ""
		works mkdir folder
		works kill -0 $$
		works cat /proc/self/environ
		works test "$(id -u)" -ge 70000
		works test "$(id -G)" = "$(id -g)"
		works test "$(umask)" = 0077
		works test "$(ulimit -c)" = 0
		works grep -q "NoNewPrivs:.1" /proc/self/status
		works grep -q "CapEff:.0000000000000000" /proc/self/status
		works grep -q "CapPrm:.0000000000000000" /proc/self/status
		for name in . lock identity identity.spare checkpoint.log cache trash volumes volumes-of sandboxes sandboxes/f1 \
			sandboxes/f1/command sandboxes/f1/command/stdout sandboxes/f1/command/tasks sandboxes/f1/command/tasks/t1 \
			sandboxes/f1/command/tasks/t1/stdout sandboxes/f1/command/tasks/t1/file sandboxes/f1/command/owners \
			sandboxes/f1/command/owners/ann sandboxes/f2 sandboxes/f2/command; do
			fails ls DATA/$name/ 
			fails cat DATA/$name
			fails touch DATA/$name/new
			fails sh -c "echo x >> DATA/$name"
			fails mv DATA/$name OWN/moved
			fails ln DATA/$name hard
			fails chmod 777 DATA/$name
		done
		for pid in PIDS; do
			fails cat /proc/$pid/environ
			fails cat /proc/$pid/maps
			fails cat /proc/$pid/cwd/file
			fails ls /proc/$pid/fd/
			fails ls /proc/$pid/root/
			fails kill -0 $pid
			fails kill -9 $pid
			fails renice -n 5 -p $pid
		done
		fails test -n "$PASSWORD"
		fails su root -c true
		touch done`))
	attack.Owner = attackOwner
	launchOf(master, framework, attack)
	master.status("t2", api.TaskFinished)
	if text, err := os.ReadFile(filepath.Join(own, "failed")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s%v", text, err)
	}
	uidOf(t, filepath.Join(own, "done"))
	ran, mode := uidOf(t, sandbox)
	second, _ := uidOf(t, own)
	if ran == second || ran < entry.DynamicFirst || second < entry.DynamicFirst || mode != 0o700 {
		t.Errorf("the tasks ran as %d (mode %v) and %d", ran, mode, second)
	}
	for _, name := range []string{"stdout", "stderr"} {
		if owner, mode := uidOf(t, filepath.Join(sandbox, name)); owner != ran || mode != 0o600 {
			t.Errorf("%s is of %d, with mode %v", name, owner, mode)
		}
	}
	strangersAreTurnedAway(t, a, second)
	master.say(protocol.KillTask{TaskRef: api.TaskRef{Framework: "f1", Task: "t1"}, Reason: api.ReasonKilledByFramework})
	master.status("t1", api.TaskKilled)
	master.shutDown()
}

// strangersAreTurnedAway connects to the executors' socket as a user who has no executor. The connection must be
// closed.
func strangersAreTurnedAway(t *testing.T, a *running, uid int) {
	t.Helper()
	said := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread runs as another user from here on, and ends with the goroutine
		said <- func() error {
			const same = ^uintptr(0)
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 { // unix.Setresuid is about all threads
				return errno
			}
			socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(socket)
			if err := unix.Connect(socket, &unix.SockaddrUnix{Name: a.listeners.socket}); err != nil {
				return err
			}
			var buffer [1]byte
			n, err := unix.Read(socket, buffer[:])
			if n > 0 {
				return fmt.Errorf("it was told %d bytes", n)
			}
			if err != nil && !errors.Is(err, unix.ECONNRESET) {
				return err
			}
			return nil
		}()
	}()
	if err := <-said; err != nil {
		t.Errorf("a stranger at the executors' socket: %v", err)
	}
}

// awaitFile waits until a file holds a whole line.
func awaitFile(t *testing.T, path string) {
	t.Helper()
	for {
		text, err := os.ReadFile(path)
		if err == nil && strings.HasSuffix(string(text), "\n") {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal(path)
		}
		runtime.Gosched()
	}
}

// A framework keeps its user over a restart of its agent, so does each owner of its tasks, and its volumes keep that owner. A task may ask for a user
// that the agent allows.
func TestUsersOfTasks(t *testing.T) {
	master := newScript(t)
	config := usersConfig(t, master)
	config.TaskUsers = []string{"nobody", "nosuch"}
	run := func() func() {
		a := run(t, config)
		await(master, "report", func(c protocol.AgentReport) bool { return c.Last })
		return func() {
			master.shutDown()
			a.end()
			master.forget()
		}
	}
	end := run()
	as := func(id api.TaskID, user string) api.Task {
		task := command(id, "id -u > uid")
		task.Command.User = user
		return task
	}
	who := func(id api.TaskID) string {
		return textOf(t, filepath.Join(config.DataDir, "sandboxes/f1/command/tasks", string(id), "uid"))
	}
	master.launch(as("t1", ""))
	master.status("t1", api.TaskFinished)
	nobody, err := entry.Users{}.Find("nobody")
	if err != nil {
		t.Skip(err)
	}
	master.launch(as("t2", "nobody"))
	master.status("t2", api.TaskFinished)
	if got := who("t2"); got != strconv.Itoa(nobody.UID) {
		t.Errorf("a task that asked for nobody ran as %s", got)
	}
	master.launch(as("t3", "root"))
	if status := master.status("t3", api.TaskError); status.Reason != api.ReasonTaskUnauthorized {
		t.Errorf("a task that asked for root: %+v", status)
	}
	master.launch(as("t4", "nosuch"))
	if status := master.status("t4", api.TaskFailed); status.Reason != api.ReasonLaunchFailed || !strings.Contains(status.Message, "no user nosuch") {
		t.Errorf("a task that asked for a user who is not there: %+v", status)
	}
	of := func(id api.TaskID, owner string) api.Task {
		task := as(id, "")
		task.Owner = owner
		return task
	}
	master.launch(of("a1", "ann"))
	master.status("a1", api.TaskFinished)
	end()
	end = run()
	master.launch(of("b1", "bob"))
	master.status("b1", api.TaskFinished)
	master.launch(of("a2", "ann"))
	master.status("a2", api.TaskFinished)
	if who("a1") != who("a2") || who("a1") == who("b1") || who("a1") == who("t1") || who("b1") == who("t1") {
		t.Errorf("ann's tasks ran as %s, and after a restart as %s; bob's as %s, and the framework's own as %s", who("a1"), who("a2"), who("b1"), who("t1"))
	}
	master.launch(as("t5", ""))
	master.status("t5", api.TaskFinished)
	if who("t1") != who("t5") {
		t.Errorf("the framework's tasks ran as %s, and after a restart as %s", who("t1"), who("t5"))
	}
	end()
}

// An agent whose tasks could not reach their sandboxes says so and does not start.
func TestFolderOutOfReach(t *testing.T) {
	master := newScript(t)
	config := usersConfig(t, master)
	if err := os.Chmod(filepath.Dir(config.DataDir), 0o700); err != nil {
		t.Fatal(err)
	}
	a, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(t.Context()); !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), "chmod o+x") {
		t.Error(err)
	}
}
