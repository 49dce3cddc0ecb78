package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/images/setup"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/agent/walls/spaces"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/mounts"
	"github.com/tenderhq/tender/internal/testing/oci"
)

// imagesConfig returns the configuration of an agent whose tasks run in images.
func imagesConfig(t *testing.T, master *script) Config {
	t.Helper()
	config := usersConfig(t, master)
	if err := os.MkdirAll(config.DataDir, 0o711); err != nil {
		t.Fatal(err)
	}
	cells, err := walls.OpenCells(config.DataDir, config.Walls)
	if err != nil {
		t.Fatal(err)
	}
	if why := cells.NoImages(); why != "" {
		t.Skipf("no images here: %s", why)
	}
	if err := cells.Close(); err != nil {
		t.Fatal(err)
	}
	return config
}

var shellPrograms = []string{"sh", "cat", "ls", "id", "sleep", "touch", "rm", "tr", "mkfifo"}

// shellImage returns an image with a shell; says is the image's own configuration.
func shellImage(t *testing.T, says v1.Config) v1.Image {
	t.Helper()
	files := append(oci.Programs(t, shellPrograms...),
		oci.File{Name: "etc/"}, oci.File{Name: "etc/release", Content: "test image\n", Mode: 0o644},
		oci.File{Name: "etc/passwd", Content: "root:x:0:0::/root:/bin/sh\nweb:x:101:102::/var/web:/bin/sh\n", Mode: 0o644},
		oci.File{Name: "etc/group", Content: "web:x:102:\nlogs:x:103:web\n", Mode: 0o644},
		oci.File{Name: "below", Content: "of the layer below"}, oci.File{Name: "root-only", Content: "x", Mode: 0o600},
		oci.File{Name: "tmp/", Mode: 0o1777},
		oci.File{Name: "etc/resolv.conf", Type: '2', Link: "/../../../../proc/self/nothing"})
	return oci.Image(t, says, oci.Layer(t, files...), oci.Layer(t, oci.File{Name: ".wh.below"}, oci.File{Name: "above", Content: "of the layer above"}))
}

func imaged(id api.TaskID, image, line string) api.Task {
	task := api.Task{ID: id, Resources: api.Scalars(0.1, 64), Image: image}
	if line != "" {
		task.Command = &api.Command{Shell: line}
	}
	return task
}

// An image may list a layer several times, as it often does with the empty one. What the layer says holds from its last
// place on.
func TestAnImageThatListsALayerTwice(t *testing.T) {
	for _, copied := range []bool{false, true} {
		master := newScript(t)
		config := imagesConfig(t, master)
		config.Walls.CopyImages = copied
		a := run(t, config)
		await(master, "registration", func(protocol.RegisterAgent) bool { return true })
		registry := oci.Serve(t)
		base := oci.Layer(t, append(oci.Programs(t, "sh", "cat", "ls"), oci.File{Name: "d/"}, oci.File{Name: "d/base", Content: "1"})...)
		empty, x := oci.Layer(t), oci.Layer(t, oci.File{Name: "d/"}, oci.File{Name: "d/x", Content: "x"}, oci.File{Name: "d/.wh.base"})
		gone := oci.Layer(t, oci.File{Name: "d/"}, oci.File{Name: "d/.wh.x"}, oci.File{Name: "d/base", Content: "2"}, oci.File{Name: "d/y", Content: "y"})
		for name, test := range map[string]struct {
			layers []v1.Layer
			want   string
		}{
			"empty":    {[]v1.Layer{base, empty, x, empty}, "x"},
			"hidden":   {[]v1.Layer{base, x, gone, x}, "x\ny"},
			"base":     {[]v1.Layer{base, x, base}, "base\nx"},
			"in-a-row": {[]v1.Layer{base, base, gone, gone}, "base\ny"},
		} {
			reference, _ := registry.Push(t, name+":v1", oci.Image(t, v1.Config{Env: []string{"PATH=/bin"}, Cmd: []string{"ls", "/d"}}, test.layers...))
			launchOf(master, "f1", imaged(api.TaskID(name), reference, ""))
			master.status(api.TaskID(name), api.TaskFinished)
			if said := textOf(t, filepath.Join(config.DataDir, "sandboxes/f1/command/tasks", name, "stdout")); said != test.want {
				t.Errorf("%s, copied %v: /d has %q, want %q", name, copied, said, test.want)
			}
		}
		a.end()
	}
}

// layersOf returns the names of the layers that an agent keeps.
func layersOf(config Config) []string {
	entries, _ := os.ReadDir(filepath.Join(config.DataDir, "images/layers"))
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// A task in an image sees the image's files and its sandbox, and nothing of its agent's machine. It runs as the user
// that it would run as anyway, with the environment and command of the image.
func TestATaskInAnImage(t *testing.T) {
	for _, copied := range []bool{false, true} {
		master := newScript(t)
		config := imagesConfig(t, master)
		registry := oci.Serve(t)
		reference, digest := registry.Push(t, "app:v1", shellImage(t, v1.Config{
			Env: []string{"PATH=/bin", "FROM=image", "OVER=image"}, Cmd: []string{"cat", "/etc/release", "/proc/1/comm"}, User: "web",
		}))
		mounted := mounts.List(t, config.DataDir)
		config.Walls.CopyImages = copied
		a := run(t, config)
		registration := await(master, "registration", func(protocol.RegisterAgent) bool { return true })
		if found := registration.Agent.Attributes[walls.Attribute]; !slices.Contains(strings.Split(found, ","), walls.Images) {
			t.Errorf("found %s", found)
		}
		sandbox := func(task string) string { return filepath.Join(config.DataDir, "sandboxes/f1/command/tasks", task) }
		launchOf(master, "f1", imaged("t0", reference, ""))
		if status := master.status("t0", api.TaskFinished); status.Image != registry.Host+"/app@"+digest {
			t.Errorf("it ran in %q", status.Image)
		}
		if said := textOf(t, filepath.Join(sandbox("t0"), "stdout")); said != "test image\n"+spaces.Helper {
			t.Errorf("the image's own program said %q", said)
		}
		task := imaged("t1", reference, `
			works() { "$@" >/dev/null 2>&1 || echo "own: $*" >> /sandbox/failed; }
			fails() { if "$@" >/dev/null 2>&1; then echo "leak: $*" >> /sandbox/failed; fi; }
			works test "$(pwd)" = /sandbox
			works test "$TENDER_TASK_SANDBOX $HOME" = "/sandbox /sandbox"
			works test "$FROM $OVER $PATH" = "image task /bin"
			works test "$(id -u)" -ge 70000
			works test "$(cat /above)" = "of the layer above"
			fails ls /below
			fails cat /root-only
			fails touch /etc/new
			works test "$(ls / | tr '\n' ' ')" = "above bin dev etc `+libs(t)+`proc root-only sandbox sys tmp "
			works touch /tmp/mine /sandbox/mine
			works test -f /etc/hosts
			works test -f /etc/resolv.conf
			fails cat /proc/sysrq-trigger
			fails touch /sys/new
			works test -c /dev/null
			fails ls `+config.DataDir+`
			fails cat /sandbox/.image/setup.json
			fails ls /sandbox/.image
			fails rm -r /sandbox/.image
			exit 0`)
		task.Command.Env = map[string]string{"OVER": "task"}
		launchOf(master, "f1", task)
		master.status("t1", api.TaskFinished)
		if text, err := os.ReadFile(filepath.Join(sandbox("t1"), "failed")); err == nil {
			t.Errorf("copied %v: %s", copied, text)
		}
		if owner, mode := uidOf(t, filepath.Join(sandbox("t1"), "mine")); owner < entry.DynamicFirst {
			t.Errorf("it ran as %d, %v", owner, mode)
		}
		if layers, upper := layersOf(config), filepath.Join(sandbox("t1"), setup.Folder, map[bool]string{false: "upper", true: "root"}[copied], "tmp/mine"); len(layers) != 2 {
			t.Errorf("%v are kept", layers)
		} else if _, err := os.Lstat(upper); err != nil {
			t.Error(err)
		}
		for task, dir := range map[api.TaskID]string{"in-image": "/etc", "made": "/srv/new", "below": "app"} {
			begins := imaged(task, reference, "pwd")
			begins.Command.Dir = dir
			launchOf(master, "f1", begins)
			master.status(task, api.TaskFinished)
			if said, want := textOf(t, filepath.Join(sandbox(string(task)), "stdout")), filepath.Join("/sandbox", dir); said != dir && said != want {
				t.Errorf("copied %v: with dir %s it begins in %q", copied, dir, said)
			}
		}
		launchOf(master, "f1", imaged("t2", registry.Host+"/nothing:v1", ""))
		if status := master.status("t2", api.TaskFailed); status.Reason != api.ReasonFetchFailed || !strings.Contains(status.Message, "its registry has no such image") {
			t.Errorf("%+v", status)
		}
		nothing := imaged("t3", reference, "")
		nothing.Command = &api.Command{Argv: []string{"nothing"}}
		launchOf(master, "f1", nothing)
		if status := master.status("t3", api.TaskFailed); status.Reason != api.ReasonLaunchFailed || !strings.HasPrefix(status.Message, "nothing: no such program in the image") {
			t.Errorf("%+v", status)
		}
		config.RecoveryTimeout = -1
		killExecutors(t, a)
		a.end()
		mounts.Check(t, config.DataDir, mounted)
	}
}

// libs returns the folders of libraries that a shell's image has in its root.
func libs(t *testing.T) string {
	var names []string
	for _, file := range oci.Programs(t, shellPrograms...) {
		if name, _, _ := strings.Cut(strings.TrimPrefix(file.Name, "/"), "/"); name != "bin" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return strings.Join(names, " ") + " "
}

// Where tasks run as root, the image names the user, the folder in which the task begins, and the signal that ends it.
// The task goes on when its agent goes away. The next agent ends it, and only then drops its layers.
func TestAnImageOutlivesTheAgent(t *testing.T) {
	master := newScript(t)
	config := imagesConfig(t, master)
	config.TaskUser, config.RecoveryTimeout = "root", 0 // 15 minutes
	registry := oci.Serve(t)
	reference, _ := registry.Push(t, "app:v1", shellImage(t, v1.Config{
		Env: []string{"PATH=/bin"}, Entrypoint: []string{"sh", "-c"}, User: "web", WorkingDir: "/work/here", StopSignal: "SIGQUIT",
	}))
	mounted := mounts.List(t, config.DataDir)
	first := run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	task := imaged("t1", reference, "")
	task.Command = &api.Command{Argv: []string{`echo $(id -u) $(id -g) $(id -G) $HOME $(pwd); trap 'echo stopped; exit 7' QUIT; touch mine; echo > /sandbox/up; while :; do sleep 0.01; done`}}
	task.Checks = []api.Check{{
		Readiness: true, Interval: api.CheckIntervalMin, Command: &api.Command{Argv: []string{"sh", "-c", "test $(id -u) = 101 && test -f /etc/release && test -f mine"}},
	}}
	launchOf(master, "f1", task)
	started := await(master, "start", func(c protocol.StatusUpdate) bool { return c.Status.State > api.TaskStarting }).Status
	if started.State != api.TaskRunning {
		t.Fatalf("%+v", started)
	}
	pinned := started.Image
	sandbox := filepath.Join(config.DataDir, "sandboxes/f1/command/tasks/t1")
	awaitFile(t, filepath.Join(sandbox, "up"))
	if said := textOf(t, filepath.Join(sandbox, "stdout")); said != "101 102 102 103 /var/web /work/here" {
		t.Errorf("it said %q", said)
	}
	await(master, "a check that is passed", func(c protocol.StatusUpdate) bool { return c.Status.Healthy != nil && *c.Status.Healthy })
	helper := runningOf(t, first, "t1")
	first.end()
	if !proc.Alive(helper.PID, helper.Start) {
		t.Fatal("the task has ended with its agent")
	}
	config.RecoveryTimeout = -1
	master.forget()
	second := run(t, config)
	await(master, "report", func(c protocol.AgentReport) bool { return c.Last })
	if again := runningOf(t, second, "t1"); again != helper {
		t.Errorf("the agent has found %+v, not %+v", again, helper)
	}
	second.inbox.ask(t.Context(), func(*core.Core) {}) // after this the agent knows what the task uses
	if _, err := second.preparing.images.GiveUp(); err != nil || len(layersOf(config)) != 2 {
		t.Errorf("%v are kept: %v", layersOf(config), err)
	}
	master.say(protocol.KillTask{TaskRef: api.TaskRef{Framework: "f1", Task: "t1"}, Reason: api.ReasonKilledByFramework})
	if status := master.status("t1", api.TaskKilled); status.ExitCode == nil || *status.ExitCode != 7 || status.Image != pinned {
		t.Errorf("%+v", status)
	}
	if said := textOf(t, filepath.Join(sandbox, "stdout")); !strings.HasSuffix(said, "\nstopped") {
		t.Errorf("it said %q", said)
	}
	if err := syscall.Kill(helper.PID, 0); err == nil {
		t.Error("its helper lives")
	}
	second.inbox.ask(t.Context(), func(*core.Core) {}) // after this the agent has dropped what the task used
	if _, err := second.preparing.images.GiveUp(); err != nil || len(layersOf(config)) != 0 {
		t.Errorf("%v are kept: %v", layersOf(config), err)
	}
	killExecutors(t, second)
	second.end()
	mounts.Check(t, config.DataDir, mounted)
}

// A task in an image is given its secrets: as variables, which replace those of the image, and as files in its sandbox,
// for the user that the image names. The files are in memory, can't be changed, and are removed with the task. (R48.)
func TestATaskInAnImageHasItsSecrets(t *testing.T) {
	master := newScript(t)
	config := imagesConfig(t, master)
	config.TaskUser, config.RecoveryTimeout = "root", -1 // the image names the user
	registry := oci.Serve(t)
	reference, _ := registry.Push(t, "app:v1", shellImage(t, v1.Config{Env: []string{"PATH=/bin", "PASSWORD=of the image"}, User: "web"}))
	mounted := mounts.List(t, config.DataDir)
	a := run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	task := imaged("t1", reference, `echo $PASSWORD $(cat secrets/key.pem) $(ls secrets) $(cat /sandbox/secrets/key.pem)
		touch secrets/new 2>/dev/null && echo new; rm -f secrets/key.pem 2>/dev/null && echo gone
		echo > up; exec sleep 1000`)
	task.Secrets = []api.Secret{{ID: "eng/db", Env: "PASSWORD"}, {ID: "eng/tls", File: "key.pem"}}
	launchOf(master, "f1", task)
	needs := await(master, "question", func(protocol.NeedSecrets) bool { return true })
	master.say(protocol.TaskSecrets{TaskRef: needs.TaskRef, Values: []protocol.SecretValue{
		{ID: "eng/db", Value: protocol.Hidden("hunter2")}, {ID: "eng/tls", Value: protocol.Hidden("the-key")},
	}})
	if status := await(master, "start", func(c protocol.StatusUpdate) bool { return c.Status.State > api.TaskStarting }).Status; status.State != api.TaskRunning {
		t.Fatalf("%+v", status)
	}
	sandbox := filepath.Join(config.DataDir, "sandboxes/f1/command/tasks/t1")
	awaitFile(t, filepath.Join(sandbox, "up"))
	if said := textOf(t, filepath.Join(sandbox, "stdout")); said != "hunter2 the-key key.pem the-key" {
		t.Errorf("the task said %q", said)
	}
	if owner, mode := uidOf(t, filepath.Join(sandbox, "secrets/key.pem")); owner != 101 || mode != 0o400 {
		t.Errorf("the file is of user %d, %v", owner, mode)
	}
	master.say(protocol.KillTask{TaskRef: needs.TaskRef, Reason: api.ReasonKilledByFramework})
	master.status("t1", api.TaskKilled)
	killExecutors(t, a)
	a.end()
	mounts.Check(t, config.DataDir, mounted)
}

// An agent that can't run images says so, and refuses a task that asks for one.
func TestAnAgentWithoutImages(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	config.Walls.Isolation = walls.Without
	run(t, config)
	registration := await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	if found := registration.Agent.Attributes[walls.Attribute]; strings.Contains(found, walls.Images) {
		t.Errorf("found %s", found)
	}
	master.launch(imaged("t1", "example.org/app:v1", ""))
	status := master.status("t1", api.TaskError)
	if want := "this agent runs no tasks in images: it was started with --isolation none; demand agents whose attribute isolation names images"; status.Message != want ||
		status.Reason != api.ReasonTaskInvalid {
		t.Errorf("%+v", status)
	}
}
