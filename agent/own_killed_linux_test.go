package agent

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/secrets"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/agent/walls/spaces"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/hang"
	"github.com/tenderhq/tender/internal/testing/mounts"
)

// walled is an executor of framework f2's own that has namespaces and whose agent is killed.
type walled struct {
	t      *testing.T
	master *script
	data   string // the agent's folder
	own    *api.Executor
}

func (w *walled) sandbox(task string) string {
	return filepath.Join(w.data, "sandboxes/f2/own/tasks", task)
}

// launch launches a task with a volume that is named like it, in which it writes a file, and such a secret, as a file.
func (w *walled) launch(id, line string) {
	w.t.Helper()
	w.master.say(protocol.CreateVolume{Volume: protocol.Volume{Resource: volumeOf(api.VolumeID(id)).Items()[0]}})
	task := api.Task{
		ID: api.TaskID(id), Executor: w.own, Resources: api.Scalars(0.1, 32).Plus(volumeOf(api.VolumeID(id))),
		Data:    []byte(tries + "echo of " + id + " > volumes/" + id + "/file\n" + w.lines(line)),
		Secrets: []api.Secret{{ID: api.SecretID("eng/" + id), File: "key"}},
	}
	launchOf(w.master, "f2", task)
	needs := await(w.master, "question", func(c protocol.NeedSecrets) bool { return c.Task == task.ID })
	w.master.say(protocol.TaskSecrets{TaskRef: needs.TaskRef, Values: []protocol.SecretValue{
		{ID: task.Secrets[0].ID, Value: protocol.Hidden("secret of " + id)},
	}})
	w.master.status(task.ID, api.TaskRunning)
}

// look launches a task without volume and secret, and fails the test if its lines print something.
func (w *walled) look(id, line string) {
	w.t.Helper()
	launchOf(w.master, "f2", api.Task{ID: api.TaskID(id), Executor: w.own, Resources: api.Scalars(0.1, 32), Data: []byte(tries + w.lines(line))})
	w.finished(id, "")
}

func (w *walled) lines(line string) string {
	return strings.NewReplacer("DATA", w.data, "TASKS", w.sandbox("")).Replace(line)
}

// finished fails the test if a task does not finish with this message.
func (w *walled) finished(id, said string) {
	w.t.Helper()
	ended := await(w.master, "end of "+id, func(c protocol.StatusUpdate) bool {
		return c.Status.Task == api.TaskID(id) && c.Status.State.Terminal()
	})
	if ended.Status.State != api.TaskFinished || string(ended.Status.Data) != said {
		w.t.Errorf("%s is %v (%s), and said %q", id, ended.Status.State, ended.Status.Message, ended.Status.Data)
	}
}

// touch makes a file that tells a task to go on.
func (w *walled) touch(task, name string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.sandbox(task), name), nil, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// leftBehind shows an executor the volume and the secret of a task that has ended, as if the agent had been killed
// before it could hide them.
func (w *walled) leftBehind(executor int, task string) {
	w.t.Helper()
	owner, _ := uidOf(w.t, w.sandbox(task))
	place := beneath.New(w.data).At(w.sandbox(task))
	if err := secrets.Show(place, entry.User{UID: owner, GID: owner}, map[string]protocol.Hidden{"key": []byte("secret")}); err != nil {
		w.t.Fatal(err)
	}
	folders := []string{filepath.Join(w.sandbox(task), secrets.Folder), filepath.Join(w.data, "volumes", task)}
	if err := entry.Start(func() error { return spaces.Reveal(executor, w.data, folders) }); err != nil {
		w.t.Fatal(err)
	}
}

// unseen checks what a task and a framework's own executor can't see, whichever agent runs.
const unseen = `
	for name in lock identity identity.spare checkpoint.log cache trash volumes-of sandboxes/f1; do
		fails test -e DATA/$name
	done
	for folder in DATA DATA/sandboxes DATA/sandboxes/f2 DATA/sockets DATA/volumes; do
		fails touch $folder/new
	done
	test "$(cat /proc/[0-9]*/status 2>/dev/null | grep ^Uid: | sort -u | wc -l)" = 1 || echo "sees processes of others"
	fails umount DATA
	`

// The agent of a framework's own executor is killed. The executor and its tasks go on with what they had. The next
// agent shows and hides volumes and secrets as before. It also hides those of tasks that ended while there was no
// agent, or whose agent was killed before it could hide them. At the end nothing of it is left.
func TestOwnExecutorsOutliveAKilledAgent(t *testing.T) {
	master := newScript(t)
	config := spacesConfig(t, master)
	config.RecoveryTimeout = 0 // 15 minutes
	mounted := mounts.List(t, config.DataDir)
	w := &walled{t: t, master: master, data: config.DataDir, own: ownExecutor(t)}
	killed := agentProcess{master.address, config.DataDir}.start(t)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })

	const waits = `until test -e go; do sleep 0.02; done; `
	w.launch("gone", "cat secrets/key")
	w.finished("gone", "secret of gone")
	w.look("l1", `
		fails test -e TASKS/gone/secrets/key
		fails test -e DATA/volumes/gone/file
		true`)
	w.launch("stays", `touch /tmp/mark; echo $PPID > pid; `+waits+`cat secrets/key volumes/stays/file; test -e /tmp/mark; echo $PPID`)
	w.launch("ends", waits+`cat secrets/key; echo > ended`)
	awaitFile(t, filepath.Join(w.sandbox("stays"), "pid"))
	pid, err := strconv.Atoi(textOf(t, filepath.Join(w.sandbox("stays"), "pid")))
	if err != nil {
		t.Fatal(err)
	}
	executor, err := proc.Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	w.leftBehind(pid, "gone")
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = killed.Process.Wait()
	w.touch("ends", "go")
	awaitFile(t, filepath.Join(w.sandbox("ends"), "ended"))
	if !proc.Alive(executor.PID, executor.Start) {
		t.Fatal("the executor is gone with its agent")
	}

	config.RecoveryTimeout = -1
	master.forget()
	next := run(t, config)
	root := cellsOf(t, next)
	await(master, "report", func(c protocol.AgentReport) bool { return c.Last })
	w.finished("ends", "secret of ends")
	w.launch("comes", unseen+`cat secrets/key volumes/comes/file`)
	w.finished("comes", "secret of comesof comes\n")
	w.look("l2", unseen+`
		for name in gone ends comes; do
			fails test -e TASKS/$name/secrets/key
			fails test -e DATA/volumes/$name/file
		done
		works cat TASKS/stays/secrets/key
		works cat DATA/volumes/stays/file
		works test -e /tmp/mark
		works test $PPID = `+strconv.Itoa(pid))
	w.touch("stays", "go")
	w.finished("stays", "secret of staysof stays\n"+strconv.Itoa(pid)+"\n")
	w.look("l3", `
		fails test -e TASKS/stays/secrets/key
		fails test -e DATA/volumes/stays/file
		true`)
	for _, name := range []string{"gone", "stays", "ends", "comes"} { // only DestroyVolume deletes data
		if said := textOf(t, filepath.Join(config.DataDir, "volumes", name, "file")); said != "of "+name {
			t.Errorf("volume %s holds %q", name, said)
		}
		master.say(protocol.DestroyVolume{Volume: api.VolumeID(name)})
		await(master, "end of volume "+name, func(c protocol.VolumeDone) bool { return c.Volume == api.VolumeID(name) && c.Err == "" })
	}
	killExecutors(t, next)
	hang.Await(t, "the end of the executor", nil, func() bool {
		for proc.Alive(executor.PID, executor.Start) {
			runtime.Gosched()
		}
		return true
	})
	next.end()
	for _, left := range processes(t) {
		if left.Session == executor.PID && !left.Dead {
			t.Errorf("process %+v of it lives", left)
		}
	}
	if root.Exists() {
		t.Errorf("the agent has left %v", root.Children())
	}
	if left := beneath.New(config.DataDir).At(filepath.Join(config.DataDir, "volumes")).List(); len(left) > 0 {
		t.Errorf("volumes %v are left", left)
	}
	mounts.Check(t, config.DataDir, mounted)
}
