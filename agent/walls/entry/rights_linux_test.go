package entry

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// Work is done with the user's rights to files. Afterwards every thread has the rights of this process again.
func TestAs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may act as another user")
	}
	folder := t.TempDir()
	for _, path := range []string{folder, filepath.Dir(folder)} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(folder, "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			user := User{UID: 71000 + i, GID: 72000 + i}
			path := filepath.Join(folder, "file"+strconv.Itoa(i))
			err := As(user, func() error {
				if _, err := os.ReadFile(secret); !errors.Is(err, fs.ErrPermission) {
					t.Errorf("user %d reads what is root's: %v", user.UID, err)
				}
				return os.WriteFile(path, nil, 0o600)
			})
			if err != nil {
				t.Error(err)
				return
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Error(err)
				return
			}
			if owner := OwnerOf(info); owner.UID != user.UID || owner.GID != user.GID {
				t.Errorf("%+v made a file that belongs to %+v", user, owner)
			}
			if _, err := os.ReadFile(secret); err != nil {
				t.Errorf("root's rights did not come back: %v", err)
			}
		})
	}
	all.Wait()
}

// As returns the error of the work.
func TestAsPassesErrorsOn(t *testing.T) {
	wrong := errors.New("wrong")
	for _, user := range []User{Self(), {UID: 71234, GID: 71234}} {
		if err := As(user, func() error { return wrong }); !errors.Is(err, wrong) {
			t.Errorf("%+v: %v", user, err)
		}
	}
}
