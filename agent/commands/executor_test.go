package commands

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/hang"
	"github.com/tenderhq/tender/internal/testing/processor"
	testprogram "github.com/tenderhq/tender/internal/testing/program"
)

func TestOutcomes(t *testing.T) {
	a := start(t)
	for i, test := range []struct {
		line  string
		state api.TaskState
		code  int
	}{
		{"true", api.TaskFinished, 0},
		{"exit 3", api.TaskFailed, 3},
		{"kill -9 $$", api.TaskFailed, 137},
	} {
		id := api.TaskID(fmt.Sprint("t", i))
		a.shell(id, test.line)
		running := a.want(id, api.TaskRunning)
		if running.ProcessGroup < 2 {
			t.Errorf("process group %d", running.ProcessGroup)
		}
		if got := a.want(id, test.state); got.ExitCode == nil || *got.ExitCode != test.code {
			t.Errorf("%s: %+v", test.line, got)
		}
	}
}

// The status of a task that has failed says what it has said last to its stderr, whatever it has put in that place.
func TestTheEndTellsTheLastLine(t *testing.T) {
	a := start(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of somebody else\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, test := range []struct{ line, want string }{
		{"echo first >&2; printf 'no\\tluck\\n\\n' >&2; exit 3", "exited with 3; the last line of its stderr: no luck"},
		{"echo out; exit 3", "exited with 3"},
		{"echo 'it is fine' >&2", ""},
		{"echo bye >&2; kill -9 $$", "ended by signal 9 (killed); the last line of its stderr: bye"},
		{"rm stderr; ln -s " + secret + " stderr; exit 4", "exited with 4"},
		{"rm stderr; mkfifo stderr; exit 5", "exited with 5"},
	} {
		id := api.TaskID(fmt.Sprint("t", i))
		a.shell(id, test.line)
		a.want(id, api.TaskRunning)
		state := api.TaskFailed
		if test.want == "" {
			state = api.TaskFinished
		}
		if got := a.want(id, state).Message; got != test.want {
			t.Errorf("%s: it says %q, wanted %q", test.line, got, test.want)
		}
	}
}

// The status of a task's end says how much the task has written, so that nobody asks for an output that is empty.
func TestTheEndTellsTheSizeOfTheOutput(t *testing.T) {
	a := start(t)
	for i, test := range []struct {
		line string
		want *api.OutputSize
	}{
		{"true", &api.OutputSize{}},
		{"echo out; echo error >&2", &api.OutputSize{Stdout: 4, Stderr: 6}},
		{"echo out; (echo late; exit 1)", &api.OutputSize{Stdout: 9}},
		{"rm stdout; mkfifo stdout", nil},
	} {
		id := api.TaskID(fmt.Sprint("t", i))
		a.shell(id, test.line)
		a.want(id, api.TaskRunning)
		state := api.TaskFinished
		if strings.Contains(test.line, "exit 1") {
			state = api.TaskFailed
		}
		if got := a.want(id, state).Output; !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.line, got, test.want)
		}
	}
}

// A task gets the environment that it asks for and TENDER_TASK_*, and nothing of the agent's. (R33)
func TestSandboxOutputAndEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_THE_AGENT", "1")
	a := start(t)
	a.launch(api.Task{
		ID:      "t1",
		Command: &api.Command{Shell: "pwd; cat; env >&2", Env: map[string]string{"A": "b c", "TENDER_TASK_ID": "forged"}},
		Ports:   map[string]uint16{"http-admin": 31001},
	})
	a.want("t1", api.TaskRunning)
	a.want("t1", api.TaskFinished)
	sandbox, err := filepath.EvalSymlinks(filepath.Join(a.folder, "t1"))
	if err != nil {
		t.Fatal(err)
	}
	if got := a.read("t1", "stdout"); got != sandbox {
		t.Errorf("stdout %q, want %q", got, sandbox)
	}
	env := "\n" + a.read("t1", "stderr") + "\n"
	for _, line := range []string{
		"A=b c", "PATH=" + protocol.DefaultPath, "TENDER_TASK_ID=t1", "TENDER_TASK_FRAMEWORK_ID=framework-1", "TENDER_TASK_AGENT_ID=agent-1",
		"TENDER_TASK_HOSTNAME=host", "TENDER_TASK_PORT_HTTP_ADMIN=31001", "TENDER_TASK_SANDBOX=" + filepath.Join(a.folder, "t1"),
	} {
		if !strings.Contains(env, "\n"+line+"\n") {
			t.Errorf("no %q in %s", line, env)
		}
	}
	if strings.Contains(env, "SECRET") || strings.Contains(env, "forged") {
		t.Errorf("too much in %s", env)
	}
}

// A task has the variables that cron, sshd and containers give, so scripts that refuse unset variables and programs that
// keep files in HOME run. What the task asks for wins. (R33)
func TestVariablesOfASession(t *testing.T) {
	a := start(t)
	a.launch(api.Task{ID: "t1", Command: &api.Command{Argv: []string{"sh", "-euc", `
		mkdir "$HOME/.cache"; echo kept > ~/.cache/file
		mktemp "$TMPDIR/tender-test.XXXXXX" | xargs rm
		[ "$USER" = "$(id -un 2>/dev/null || id -u)" ] && [ "$LOGNAME" = "$USER" ]
		env | grep "^PWD=$TENDER_TASK_SANDBOX$" >/dev/null
		"$SHELL" -c 'echo "$HOME"'`}}})
	a.want("t1", api.TaskRunning)
	a.want("t1", api.TaskFinished)
	if got, want := a.read("t1", "stdout"), filepath.Join(a.folder, "t1"); got != want {
		t.Errorf("HOME is %q, want %q", got, want)
	}
	if got := a.read("t1", ".cache/file"); got != "kept" {
		t.Errorf("~/.cache/file is %q", got)
	}
	asked := map[string]string{"HOME": "/h", "USER": "u", "LOGNAME": "l", "SHELL": "/s", "TMPDIR": ""}
	a.launch(api.Task{ID: "t2", Command: &api.Command{Shell: `echo "$HOME $USER $LOGNAME $SHELL ${TMPDIR-unset}"`, Env: asked}})
	a.want("t2", api.TaskRunning)
	a.want("t2", api.TaskFinished)
	if got := a.read("t2", "stdout"); got != "/h u l /s " {
		t.Errorf("the task has %q of what it asked for", got)
	}
}

func TestPrograms(t *testing.T) {
	a := start(t)
	sandbox := a.sandbox("t3")
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(sandbox, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("own", "#!/bin/sh\necho mine\n", 0o755)
	a.launch(api.Task{ID: "t3", Command: &api.Command{Argv: []string{"./own"}}})
	a.want("t3", api.TaskRunning)
	a.want("t3", api.TaskFinished)
	a.launch(api.Task{ID: "t3-path", Command: &api.Command{Argv: []string{"own"}, Env: map[string]string{"PATH": sandbox}}})
	a.want("t3-path", api.TaskRunning)
	a.want("t3-path", api.TaskFinished)
	write("text", "no program", 0o644)
	write("dos", "#!/bin/sh\r\necho mine\r\n", 0o755)
	for i, test := range []struct{ argv0, sentence string }{
		{"nosuch", "nosuch: no such program in PATH (/usr/local/sbin:"},
		{"./nosuch", "no such file in the folder"},
		{"/nosuch", "/nosuch: no such file on this agent"},
		{filepath.Join(sandbox, "dos"), "ends with a carriage return"},
		{filepath.Join(sandbox, "text"), "not an executable file"},
		{"", "the task has no command"},
	} {
		id := api.TaskID(fmt.Sprint("bad", i))
		a.launch(api.Task{ID: id, Command: &api.Command{Argv: []string{test.argv0}}})
		got := a.want(id, api.TaskFailed)
		if got.Reason != api.ReasonLaunchFailed || !strings.Contains(got.Message, test.sentence) {
			t.Errorf("%q: %v %q, want %q", test.argv0, got.Reason, got.Message, test.sentence)
		}
	}
}

// TestDir: a task begins in the folder that it names, below its sandbox or anywhere, and so do its checks and what it
// names by a relative path. One that is not there, or that its user may not enter, is named.
func TestDir(t *testing.T) {
	a := start(t)
	below := filepath.Join(a.sandbox("t1"), "app", "bin")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(below, "own"), []byte("#!/bin/sh\npwd; echo $PWD\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"app/bin", below} {
		id := api.TaskID("t1")
		if filepath.IsAbs(dir) {
			id = "t2"
		}
		a.launch(api.Task{ID: id, Command: &api.Command{Argv: []string{"./own"}, Dir: dir}})
		a.want(id, api.TaskRunning)
		a.want(id, api.TaskFinished)
		if got := a.read(id, "stdout"); got != below+"\n"+below {
			t.Errorf("in %s it begins in %q", dir, got)
		}
	}
	checked := &api.Command{Shell: "while [ ! -f checked ]; do sleep 0.01; done; rm checked", Dir: below}
	a.launch(api.Task{ID: "t3", Command: checked, Checks: []api.Check{{Command: &api.Command{Shell: "touch checked"}, Interval: api.CheckIntervalMin}}})
	ended := a.next("t3")
	for ended.State == api.TaskRunning { // and once more when it has passed its check
		ended = a.next("t3")
	}
	if ended.State != api.TaskFinished {
		t.Errorf("its check does not begin where it does: %v %s", ended.State, ended.Message)
	}
	a.launch(api.Task{ID: "t4", Command: &api.Command{Shell: "true", Dir: "nosuch"}})
	if got := a.want("t4", api.TaskFailed); got.Reason != api.ReasonLaunchFailed || !strings.Contains(got.Message, "/nosuch, in which it is to begin, is no folder on this agent") {
		t.Errorf("%v %q", got.Reason, got.Message)
	}
}

func TestKillWithinTheGrace(t *testing.T) {
	a := start(t)
	a.shell("t1", `trap 'echo bye; exit 0' TERM; touch ready; while :; do sleep 0.01; done`)
	a.want("t1", api.TaskRunning)
	a.await("t1", "ready")
	a.send(protocol.ExecutorKill{Task: "t1", Grace: time.Minute}, protocol.ExecutorKill{Task: "t1", Grace: time.Minute})
	a.want("t1", api.TaskKilled)
	if got := a.read("t1", "stdout"); got != "bye" {
		t.Errorf("said %q", got)
	}
}

// TestKillSignal: a task is asked to end by the signal that it names.
func TestKillSignal(t *testing.T) { endsBySIGINT(t, start(t)) }

func endsBySIGINT(t *testing.T, a *agent) {
	t.Helper()
	line := `trap 'echo no; exit 1' TERM; trap 'echo bye; exit 0' INT; touch ready; while :; do sleep 0.01; done`
	a.launch(api.Task{ID: "t1", KillSignal: "SIGINT", Command: &api.Command{Shell: line}})
	a.want("t1", api.TaskRunning)
	a.await("t1", "ready")
	a.send(protocol.ExecutorKill{Task: "t1", Grace: time.Minute})
	a.want("t1", api.TaskKilled)
	if got := a.read("t1", "stdout"); got != "bye" {
		t.Errorf("said %q", got)
	}
}

func TestKillWhenTheGraceIsOver(t *testing.T) {
	a := start(t)
	a.shell("t1", `trap '' TERM; touch ready; while :; do sleep 0.01; done`)
	a.want("t1", api.TaskRunning)
	a.await("t1", "ready")
	for _, grace := range []time.Duration{time.Hour, 50 * time.Millisecond, time.Hour} { // a further kill only shortens
		a.send(protocol.ExecutorKill{Task: "t1", Grace: grace})
	}
	if got := a.want("t1", api.TaskKilled); *got.ExitCode != 137 {
		t.Errorf("%+v", got)
	}
}

// There is no terminal status before all processes of the task are gone. (R11)
func TestRestOfTheGroupEndsFirst(t *testing.T) {
	a := start(t)
	a.shell("t1", `trap '' TERM; sh -c 'sleep 1000 & echo $! >grandchild; wait' & sleep 1000 & echo $! >child
		while [ ! -s grandchild ]; do sleep 0.01; done; exit 5`)
	a.want("t1", api.TaskRunning)
	if got := a.want("t1", api.TaskFailed); *got.ExitCode != 5 {
		t.Errorf("%+v", got)
	}
	for _, name := range []string{"child", "grandchild"} {
		pid, err := strconv.Atoi(a.read("t1", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Errorf("the %s lives on: %v", name, err)
		}
	}
}

// There is no terminal status before all processes of the task are gone, also those that have left its process group
// and its session: a background job, a daemon that forked twice, and what a daemon starts in turn. The daemon of a
// neighbour lives on.
func TestNothingOutlivesItsTask(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has subreapers")
	}
	const wait = "while :; do sleep 1000; done"
	for name, line := range map[string]string{
		"background job": `set -m; sh -c 'echo $$ >left; ` + wait + `' &`,
		"session":        `setsid sh -c 'echo $$ >left; ` + wait + `' &`,
		"daemon":         `(setsid sh -c '(sh -c "cd /; echo \$\$ >$TENDER_TASK_SANDBOX/left; ` + wait + `" &)' &);`,
		"deaf":           `setsid sh -c 'trap "" TERM HUP INT; echo $$ >left; ` + wait + `' &`,
	} {
		t.Run(name, func(t *testing.T) {
			a := start(t)
			a.shell("neighbour", `setsid sh -c 'echo $$ >pid; mv pid left; `+wait+`' & wait`)
			a.want("neighbour", api.TaskRunning)
			a.await("neighbour", "left")
			a.shell("t1", line+` while [ ! -s left ]; do sleep 0.01; done`)
			a.want("t1", api.TaskRunning)
			a.want("t1", api.TaskFinished)
			if a.alive("t1") {
				t.Error("FINISHED was told while a process of the task ran")
			}
			if !a.alive("neighbour") {
				t.Error("the neighbour's process was killed")
			}
			a.send(protocol.ExecutorKill{Task: "neighbour", Grace: time.Minute})
			a.want("neighbour", api.TaskKilled)
			if a.alive("neighbour") {
				t.Error("KILLED was told while a process of the task ran")
			}
		})
	}
}

// alive reports whether the process that the task has left behind still runs.
func (a *agent) alive(id api.TaskID) bool {
	pid, err := strconv.Atoi(a.read(id, "left"))
	if err != nil {
		a.t.Fatal(err)
	}
	return startTime(pid) != 0
}

func TestManyTasks(t *testing.T) {
	a := start(t)
	const n = 300
	for i := range n {
		a.launch(api.Task{ID: api.TaskID(fmt.Sprint("t", i)), Command: &api.Command{Argv: []string{"true"}}})
	}
	states := map[api.TaskID]api.TaskState{}
	groups := map[int]bool{}
	for range 2 * n {
		status := hang.Receive(t, "the next status", a.state, a.statuses)
		switch {
		case status.State == api.TaskRunning && states[status.Task] == 0:
			groups[status.ProcessGroup] = true
		case status.State == api.TaskFinished && states[status.Task] == api.TaskRunning:
		default:
			t.Fatalf("%s is %v (%s) after %v", status.Task, status.State, status.Message, states[status.Task])
		}
		states[status.Task] = status.State
	}
	if len(states) != n || len(groups) != n {
		t.Errorf("%d tasks in %d groups, want %d", len(states), len(groups), n)
	}
}

func TestShutdownKillsTasks(t *testing.T) {
	a := start(t)
	for i := range 10 {
		a.shell(api.TaskID(fmt.Sprint("t", i)), "sleep 1000")
	}
	for range 10 {
		if got := hang.Receive(t, "the next RUNNING", a.state, a.statuses); got.State != api.TaskRunning {
			t.Fatalf("%+v", got)
		}
	}
	a.send(protocol.ExecutorShutdown{Grace: time.Minute})
	for range 10 {
		if got := hang.Receive(t, "the next KILLED", a.state, a.statuses); got.State != api.TaskKilled {
			t.Errorf("%+v", got)
		}
	}
}

func TestParseStartTime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no /proc")
	}
	mine := startTime(os.Getpid())
	if mine == 0 || startTime(1<<22+1) != 0 {
		t.Errorf("started at %d", mine)
	}
	before := ticksNow()
	child := exec.Command("/bin/sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	since, after := startTime(child.Process.Pid), ticksNow()
	_ = child.Process.Kill() // it lives
	_ = child.Wait()
	if since < before || since > after {
		t.Errorf("a child was started at %d, between %d and %d", since, before, after)
	}
}

// await returns once the task has made the file.
func (a *agent) await(id api.TaskID, name string) {
	a.t.Helper()
	for limit := time.Now().Add(hang.After); ; runtime.Gosched() {
		if _, err := os.Stat(filepath.Join(a.folder, string(id), name)); err == nil {
			return
		}
		if time.Now().After(limit) {
			a.t.Fatalf("%s of %s: has not come for %v\n%s", name, id, hang.After, a.state())
		}
	}
}

// BenchmarkTasks runs /bin/true as tasks of this executor. It is to be compared with BenchmarkSpawn, which runs the
// same program by package os.
func BenchmarkTasks(b *testing.B) { benchmarkTasks(b, start(b)) }

// benchmarkTasks also reports the processor time that a task takes, including that of its program.
func benchmarkTasks(b *testing.B, a *agent) {
	sandboxes := make([]string, b.N)
	for i := range b.N {
		sandboxes[i] = a.sandbox(api.TaskID(fmt.Sprint("t", i)))
	}
	b.ResetTimer()
	before := processor.WithChildren(b)
	defer func() {
		b.ReportMetric(float64((processor.WithChildren(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
	}()
	go func() {
		for i := range b.N {
			task := api.Task{ID: api.TaskID(fmt.Sprint("t", i)), Resources: api.Scalars(1, 64), Command: &api.Command{Argv: []string{"/bin/true"}}}
			a.send(protocol.ExecutorLaunch{Task: task, Sandbox: sandboxes[i]})
		}
	}()
	for ended := 0; ended < b.N; {
		if status := <-a.statuses; status.State.Terminal() {
			ended++
		}
	}
}

func BenchmarkSpawn(b *testing.B) {
	b.SetParallelism(1)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p, err := os.StartProcess("/bin/true", []string{"/bin/true"}, &os.ProcAttr{})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := p.Wait(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A daemon that executes one program after the other is found all the same, and is gone when its task's end is told.
func TestTheRestlessEndWithTheirTask(t *testing.T) {
	a, restless := start(t), testprogram.Restless(t)
	for i := range 50 {
		id := api.TaskID(fmt.Sprint("t", i))
		a.shell(id, `trap "" TERM HUP; setsid sh -c 'echo $$ > daemon; exec `+restless+`' & until grep -qs restless /proc/$(cat daemon 2> /dev/null)/comm; do :; done`)
		a.want(id, api.TaskRunning)
		a.want(id, api.TaskFinished)
		pid, err := strconv.Atoi(a.read(id, "daemon"))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("daemon %d of %s is left: %v", pid, id, err)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
