package agent

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/datafolder"
	"github.com/tenderhq/tender/internal/protocol"
)

// modesBelow returns the modes of everything in a folder, by path.
func modesBelow(t *testing.T, folder string) map[string]fs.FileMode {
	t.Helper()
	modes := map[string]fs.FileMode{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if entry.Type()&(fs.ModeSymlink|fs.ModeSocket) == 0 {
			modes[name] = info.Mode().Perm()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return modes
}

// Other users may pass through the folder to what is theirs, but can't list it. When the agent starts, it closes what
// somebody has opened to them, while its tasks run on.
func TestModesOfTheFolder(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	config.RecoveryTimeout = 0
	a := run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	master.launch(command("t1", "exec sleep 1000"))
	master.status("t1", api.TaskRunning)
	look := func() {
		t.Helper()
		passages := map[string]bool{
			".": true, "sockets": true, "sandboxes": true, "sandboxes/f1": true, "sandboxes/f1/command": true, "sandboxes/f1/command/tasks": true,
		}
		for name, mode := range modesBelow(t, config.DataDir) {
			if open := mode & 0o077; passages[name] && open != 0o011 || !passages[name] && open != 0 {
				t.Errorf("%s has the mode %v", name, mode)
			}
		}
	}
	look()
	a.end()
	for name, mode := range modesBelow(t, config.DataDir) {
		if err := os.Chmod(filepath.Join(config.DataDir, name), mode|0o055); err != nil {
			t.Fatal(err)
		}
	}
	master.forget()
	config.RecoveryTimeout = -1
	run(t, config)
	await(master, "report", func(c protocol.AgentReport) bool { return c.Last })
	for name := range modesBelow(t, config.DataDir) {
		if strings.HasPrefix(name, "sandboxes/f1/command/tasks/t1/") {
			if err := os.Chmod(filepath.Join(config.DataDir, name), 0o600); err != nil { // in a folder that is closed
				t.Fatal(err)
			}
		}
	}
	look()
	master.say(protocol.KillTask{TaskRef: api.TaskRef{Framework: "f1", Task: "t1"}, Reason: api.ReasonKilledByFramework})
	master.status("t1", api.TaskKilled)
	master.shutDown()
}

// TestAForeignFolderIsLeftAlone: a start in a folder that is not an agent's, such as /etc, is refused before any mode
// is changed there. A folder that an agent has made is accepted, also if the files that identify it are lost.
func TestAForeignFolderIsLeftAlone(t *testing.T) {
	config := testConfig(t, newScript(t).address)
	config.DataDir = t.TempDir()
	for _, name := range []string{"passwd", "ssl/key"} {
		path := filepath.Join(config.DataDir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := modesBelow(t, config.DataDir)
	a, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(t.Context()); !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), "the folder holds passwd") {
		t.Errorf("it says %v", err)
	}
	if after := modesBelow(t, config.DataDir); !maps.Equal(after, before) {
		t.Errorf("the folder has %v, and had %v", after, before)
	}

	master := newScript(t)
	own := testConfig(t, master.address)
	running := run(t, own)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	running.end()
	lost := t.TempDir()
	for name := range modesBelow(t, own.DataDir) {
		if filepath.Dir(name) == "." && !slices.Contains(datafolder.Agent.Signs, name) && name != "." {
			if err := os.WriteFile(filepath.Join(lost, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := datafolder.Check(lost, datafolder.Agent); err != nil {
		t.Error(err)
	}
}

// Whatever a task puts in the place of its folder and those around it, nothing outside is shown to readers or deleted
// by the agent.
func TestLinksOfTasksLeadNowhere(t *testing.T) {
	treasure := filepath.Join(t.TempDir(), "t1")
	if err := os.Mkdir(treasure, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"stdout", "gold"} {
		if err := os.WriteFile(filepath.Join(treasure, name), []byte("gold"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, line := range map[string]string{
		"its folder":       "mv ../t1 ../was && ln -s " + treasure + " ../t1",
		"all folders":      "mv ../../tasks ../../were && ln -s " + filepath.Dir(treasure) + " ../../tasks",
		"its output":       "ln -sf " + treasure + "/gold stdout; ln -s " + treasure + "/gold gold",
		"the way upwards":  "rm stdout; ln -s ../../../../../checkpoint.log stdout; ln -s ../.. gold",
		"a file that ends": "rm stdout; mkfifo stdout gold",
	} {
		t.Run(name, func(t *testing.T) {
			master := newScript(t)
			config := testConfig(t, master.address)
			config.Port, config.Listener, config.SandboxesMax = 0, loopback(t), 1
			a := run(t, config)
			await(master, "registration", func(protocol.RegisterAgent) bool { return true })
			master.launch(command("t1", line))
			end := await(master, "the end of t1", func(c protocol.StatusUpdate) bool {
				return c.Status.Task == "t1" && c.Status.State.Terminal()
			})
			if end.Status.State != api.TaskFinished {
				t.Errorf("t1 ended with %+v", end.Status)
			}
			for _, path := range []string{"logs/f1/t1/stdout", "output/f1/t1?stdout=0", "files/f1/t1/gold", "files/f1/t1/stdout", "files/f1/t1/%2e%2e/t1/gold"} {
				answer := get(t, "http://"+a.Address()+"/v1/"+path)
				text, _ := io.ReadAll(answer.Body) // an answer that is cut off is as good as none
				answer.Body.Close()
				if strings.Contains(string(text), "gold\"") || string(text) == "gold" || strings.Contains(string(text), "identity") {
					t.Errorf("%s shows %q", path, text)
				}
			}
			master.launch(command("t2", "exit 0")) // the older of two sandboxes is deleted
			await(master, "the end of t2", func(c protocol.StatusUpdate) bool {
				return c.Status.Task == "t2" && c.Status.State.Terminal() // DROPPED where its folder can't be made
			})
			master.shutDown()
			a.end()
			if text, err := os.ReadFile(filepath.Join(treasure, "gold")); err != nil || string(text) != "gold" {
				t.Errorf("what is not the agent's: %q, %v", text, err)
			}
		})
	}
}
