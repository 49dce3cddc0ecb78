package execpath

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFind(t *testing.T) {
	folder := t.TempDir()
	for name, mode := range map[string]os.FileMode{"first/plain": 0o644, "second/plain": 0o755, "here": 0o755} {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, asked := range []struct{ name, path, want string }{
		{"plain", folder + "/first:" + folder + "/second", folder + "/second/plain"}, // what can't be run is passed by
		{"plain", "first:second", folder + "/second/plain"},                          // below the folder
		{"here", "", folder + "/here"},                                               // an empty part is the folder itself
		{"here", "/first", ""},
		{"second", folder, ""}, // a folder is no program
		{"bin/plain", folder, "bin/plain"},
	} {
		if found := Find(asked.name, asked.path, folder); found != asked.want {
			t.Errorf("%s in %q is %q, not %q", asked.name, asked.path, found, asked.want)
		}
	}
	if path := Of([]string{"PATH=/a", "HOME=/", "PATH=/b"}); path != "/b" {
		t.Errorf("the PATH is %q", path)
	}
}
