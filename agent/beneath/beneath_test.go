package beneath

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/agent/walls/entry"
)

// stranger is a user who owns no file of this machine.
var stranger = entry.User{UID: 71234, GID: 71234}

// ours returns a folder through which every user may pass.
func ours(t *testing.T) (*Folder, string) {
	t.Helper()
	path := t.TempDir()
	for _, folder := range []string{path, filepath.Dir(path)} {
		if err := os.Chmod(folder, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	folder := New(path)
	t.Cleanup(func() {
		if err := folder.Close(); err != nil {
			t.Error(err)
		}
	})
	return folder, path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func closed(t *testing.T, root *os.Root, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	must(t, root.Close())
}

func ownerOf(t *testing.T, path string) (int, fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	must(t, err)
	return entry.OwnerOf(info).UID, info.Mode().Perm()
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may act as another user")
	}
}

func text(t *testing.T, place Place, name string) (string, error) {
	t.Helper()
	file, err := place.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	return string(content), err
}

func TestWhatIsMadeIsFoundAgain(t *testing.T) {
	folder, path := ours(t)
	place := folder.At(filepath.Join(path, "sandboxes/f1/x/tasks/t1"))
	root, err := place.Make(entry.Self(), Private)
	closed(t, root, err)
	must(t, os.WriteFile(filepath.Join(place.Path(), "stdout"), []byte("said"), 0o600))
	if said, err := text(t, place, "stdout"); said != "said" || err != nil {
		t.Errorf("%q, %v", said, err)
	}
	for name, want := range map[string]fs.FileMode{"sandboxes": Passage, "sandboxes/f1/x": Passage, "sandboxes/f1/x/tasks/t1": Private} {
		if _, mode := ownerOf(t, filepath.Join(path, name)); mode != want {
			t.Errorf("%s has the mode %v, not %v", name, mode, want)
		}
	}
	if names := place.Parent().List(); len(names) != 1 || names[0] != "t1" {
		t.Errorf("%q", names)
	}
	if _, err := folder.At(filepath.Join(path, "no/such")).Open(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Whatever stands in the place of a folder on the way, nothing below it is opened, made or listed.
func TestNoWayLeadsThroughALink(t *testing.T) {
	for name, put := range map[string]func(path, elsewhere string) error{
		"a link out":               func(path, elsewhere string) error { return os.Symlink(elsewhere, path) },
		"a link within":            func(path, _ string) error { return os.Symlink("../other", path) },
		"a link to itself":         func(path, _ string) error { return os.Symlink(filepath.Base(path), path) },
		"a file":                   func(path, _ string) error { return os.WriteFile(path, nil, 0o600) },
		"a pipe that nobody fills": func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			folder, path := ours(t)
			elsewhere := t.TempDir()
			for _, other := range []string{elsewhere, filepath.Join(path, "f1/other")} {
				must(t, os.MkdirAll(filepath.Join(other, "t1"), 0o755))
				must(t, os.WriteFile(filepath.Join(other, "t1/stdout"), []byte("secret"), 0o600))
			}
			must(t, os.MkdirAll(filepath.Join(path, "f1/x"), 0o755))
			must(t, put(filepath.Join(path, "f1/x/tasks"), elsewhere))
			place := folder.At(filepath.Join(path, "f1/x/tasks/t1"))
			if said, err := text(t, place, "stdout"); err == nil {
				t.Errorf("read %q", said)
			}
			if root, err := place.Make(entry.Self(), Private); err == nil {
				t.Errorf("made %s", root.Name())
			}
			if root, err := folder.At(filepath.Join(path, "f1/x/tasks/t2")).Ensure(); err == nil {
				t.Errorf("made %s", root.Name())
			}
			if names := place.Parent().List(); names != nil {
				t.Errorf("listed %q", names)
			}
			for _, place := range []Place{place, place.Parent()} {
				if opened, err := place.OpenFolder(); err == nil {
					t.Errorf("opened %s", opened.Name())
				}
				if _, made := place.IsMade(entry.Self(), 0o755); made {
					t.Errorf("%s is said to be there", place.Path())
				}
			}
		})
	}
}

// IsMade is true for what Make has made, and false if Make would change something.
func TestIsMade(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it can't be seen at one call")
	}
	folder, path := ours(t)
	place := folder.At(filepath.Join(path, "f1/x"))
	if _, made := place.IsMade(entry.Self(), Private); made {
		t.Error("what is not there is said to be made")
	}
	if opened, err := place.OpenFolder(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(opened, err)
	}
	root, err := place.Make(entry.Self(), Private)
	closed(t, root, err)
	must(t, os.WriteFile(filepath.Join(place.Path(), "stdout"), nil, 0o600))
	for _, look := range []struct {
		place Place
		user  entry.User
		mode  fs.FileMode
		made  bool
	}{
		{place, entry.Self(), Private, true},
		{place.Parent(), entry.Self(), Passage, true},
		{place, entry.Self(), Passage, false},
		{place, stranger, Private, false},
		{place.In("stdout"), entry.Self(), 0o600, false},
		{folder.At(path + "/../" + filepath.Base(path) + "/../x"), entry.Self(), Private, false},
	} {
		if _, made := look.place.IsMade(look.user, look.mode); made != look.made {
			t.Errorf("%s, of user %d with mode %v: %v", look.place.Path(), look.user.UID, look.mode, made)
		}
	}
	opened, err := place.OpenFolder()
	must(t, err)
	defer opened.Close()
	if names, err := opened.Readdirnames(-1); err != nil || len(names) != 1 || opened.Name() != place.Path() {
		t.Error(opened.Name(), names, err)
	}
}

func TestPathsBeneathOnly(t *testing.T) {
	folder, path := ours(t)
	for _, wrong := range []string{"/etc", path + "/..", path + "/a/../../b", filepath.Dir(path)} {
		if root, err := folder.At(wrong).Open(); err == nil {
			t.Errorf("%s was opened", root.Name())
		}
	}
	for _, name := range []string{"../secret", "/etc/passwd", "link"} {
		must(t, os.WriteFile(filepath.Join(filepath.Dir(path), "secret"), nil, 0o644))
		_ = os.Symlink("../secret", filepath.Join(path, "link"))
		if said, err := text(t, folder.At(path), name); err == nil {
			t.Errorf("%s was read: %q", name, said)
		}
	}
}

// What is in a user's folder is opened and made with the user's rights. A link to a file that the user may not read
// opens nothing, and a place that was made in the folder belongs to the user.
func TestRightsAreTheOwners(t *testing.T) {
	needRoot(t)
	folder, path := ours(t)
	place := folder.At(filepath.Join(path, "f1/x"))
	root, err := place.Make(stranger, Private)
	closed(t, root, err)
	secret := filepath.Join(path, "secret")
	must(t, os.WriteFile(secret, []byte("secret"), 0o600))
	must(t, os.Link(secret, filepath.Join(place.Path(), "stdout")))
	if said, err := text(t, place, "stdout"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("read %q, %v", said, err)
	}
	file, err := place.OpenFile("mine", os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	must(t, file.Close())
	root, err = folder.At(filepath.Join(place.Path(), "tasks/t1")).Make(stranger, Private)
	closed(t, root, err)
	for _, name := range []string{"", "mine", "tasks", "tasks/t1"} {
		if owner, _ := ownerOf(t, filepath.Join(place.Path(), name)); owner != stranger.UID {
			t.Errorf("%q belongs to %d", name, owner)
		}
	}
	if owner, mode := ownerOf(t, filepath.Join(path, "f1")); owner != 0 || mode != Passage {
		t.Errorf("the folder on the way belongs to %d, with mode %v", owner, mode)
	}
}

// A folder of an older version, or of another user, is given away with everything that belonged to that user. A file
// with several names, the target of a link, and what belongs to somebody else stay as they are.
func TestAFolderIsGiven(t *testing.T) {
	needRoot(t)
	folder, path := ours(t)
	place := folder.At(filepath.Join(path, "x"))
	must(t, os.MkdirAll(filepath.Join(place.Path(), "tasks/t1"), 0o755))
	secret := filepath.Join(path, "secret")
	must(t, os.WriteFile(secret, nil, 0o600))
	in := func(name string) string { return filepath.Join(place.Path(), name) }
	must(t, os.WriteFile(in("stdout"), nil, 0o644))
	must(t, os.WriteFile(in("tasks/t1/stdout"), nil, 0o644))
	must(t, os.WriteFile(in("other's"), nil, 0o644))
	must(t, os.Chown(in("other's"), 4321, 4321))
	must(t, os.Link(secret, in("linked")))
	must(t, os.Symlink(secret, in("link")))
	root, err := place.Make(stranger, Private)
	closed(t, root, err)
	want := map[string]int{
		in(""): stranger.UID, in("stdout"): stranger.UID, in("tasks/t1"): stranger.UID, in("tasks/t1/stdout"): stranger.UID,
		in("link"): stranger.UID, in("other's"): 4321, in("linked"): 0, secret: 0,
	}
	for name, uid := range want {
		if owner, _ := ownerOf(t, name); owner != uid {
			t.Errorf("%s belongs to %d, not to %d", name, owner, uid)
		}
	}
	if _, mode := ownerOf(t, in("")); mode != Private {
		t.Errorf("the folder has the mode %v", mode)
	}
}

// Ensure of a place that somebody else has made changes no owner.
func TestEnsureTakesNothing(t *testing.T) {
	needRoot(t)
	folder, path := ours(t)
	place := folder.At(filepath.Join(path, "f1/x"))
	root, err := place.Make(stranger, Private)
	closed(t, root, err)
	root, err = place.Ensure()
	closed(t, root, err)
	if owner, _ := ownerOf(t, place.Path()); owner != stranger.UID {
		t.Errorf("it belongs to %d now", owner)
	}
}
