package setup

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tenderhq/tender/agent/walls/entry"
)

func made(t *testing.T) (sandbox string, folder *os.Root) {
	t.Helper()
	sandbox = t.TempDir()
	root, err := os.OpenRoot(sandbox)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if folder, err = Make(root); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	return sandbox, folder
}

func TestANoteIsReadAsItWasWritten(t *testing.T) {
	sandbox, folder := made(t)
	want := Setup{
		Image: "r/x@sha256:00", Layers: []string{"/a", "/b"}, Env: []string{"A=b"}, Entrypoint: []string{"/e"}, Cmd: []string{"c"},
		WorkingDir: "/w", StopSignal: 3, User: entry.User{UID: 5, GID: 6, Groups: []int{7}}, Home: "/h",
	}
	for range 2 { // the second one takes the place of the first
		if err := want.Write(folder); err != nil {
			t.Fatal(err)
		}
		got, err := Read(sandbox)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// What a task's user has put in the place of the agent's folder is not believed.
func TestWhatIsNotTheAgentsIsNotBelieved(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"a link":      func(path string) error { return os.Symlink("elsewhere", path) },
		"a file":      func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"open to all": func(path string) error { return os.Chmod(path, 0o777) },
		"somebody's": func(path string) error {
			if os.Geteuid() != 0 {
				return os.Chmod(path, 0o770) // nobody but root gives folders away
			}
			return os.Chown(path, 70_001, 70_001)
		},
	} {
		t.Run(name, func(t *testing.T) {
			sandbox, folder := made(t)
			if err := (Setup{Image: "x"}).Write(folder); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(sandbox, Folder)
			if strings.HasPrefix(name, "a ") {
				if err := os.Rename(path, filepath.Join(sandbox, "elsewhere")); err != nil {
					t.Fatal(err)
				}
			}
			if err := replace(path); err != nil {
				t.Fatal(err)
			}
			if s, err := Read(sandbox); err == nil {
				t.Errorf("%+v was believed", s)
			}
			root, err := os.OpenRoot(sandbox)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			if folder, err := Make(root); err == nil {
				t.Error("it was taken for the agent's")
				folder.Close()
			}
		})
	}
}
