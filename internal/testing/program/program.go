// Package program copies the program of a test, for tests that run it from elsewhere or as somebody else, and writes one that
// is hard to catch.
package program

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Copy copies this very program to a new file that everybody may run.
func Copy(path string) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, self)
	return errors.Join(err, to.Close())
}

// ForAll copies this program, until the end of the test, to a place where everybody sees it, also in a namespace with a
// /tmp of its own. It returns the path. A test that may not write there is skipped.
func ForAll(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("/var/lib", "tender-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	self := filepath.Join(folder, "program")
	if err := cmp.Or(Copy(self), os.Chmod(folder, 0o755), os.Chmod(self, 0o755)); err != nil {
		t.Fatal(err)
	}
	return self
}
