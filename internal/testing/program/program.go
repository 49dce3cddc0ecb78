// Package program copies the program of a test, for tests that run it from elsewhere or as somebody else.
package program

import (
	"errors"
	"io"
	"os"
)

// Copy makes a new file of this very program, which everybody may run.
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
