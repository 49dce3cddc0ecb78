package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
)

// secretBytesMax bounds the size of files that hold keys, tokens and certificates.
const secretBytesMax = 1 << 20

// ReadSecret reads a file that only its owner may read. A file that others may read is refused, because they may have
// read it by now.
func ReadSecret(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	switch {
	case !info.Mode().IsRegular() || info.Size() > secretBytesMax:
		return nil, api.E("trust.read", api.Invalid, name, errors.New("it is no file of a secret"))
	case info.Mode().Perm()&0o077 != 0:
		return nil, api.E("trust.read", api.Invalid, name,
			fmt.Errorf("its mode is %04o, so others on this machine can read it; if none has, run: chmod 600 %s", info.Mode().Perm(), name))
	}
	return os.ReadFile(name)
}

// WriteSecret writes a file that only its owner may read. The file is written whole or not at all.
func WriteSecret(name string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*") // its mode is 0600
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return syncFolder(filepath.Dir(name))
}

// IsUnfinished says whether an entry of a folder was left by an interrupted WriteSecret of the file.
func IsUnfinished(entry, file string) bool { return strings.HasPrefix(entry, "."+file+"-") }

// RemoveUnfinished removes what interrupted writes of secret files have left in a folder. No such write may be under
// way.
func RemoveUnfinished(dir string, files ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var failures []error
	for _, entry := range entries {
		if slices.ContainsFunc(files, func(file string) bool { return IsUnfinished(entry.Name(), file) }) {
			failures = append(failures, os.Remove(filepath.Join(dir, entry.Name())))
		}
	}
	return errors.Join(failures...)
}

func syncFolder(name string) error {
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	err = folder.Sync()
	if errors.Is(err, fs.ErrInvalid) { // the file system can't do that
		err = nil
	}
	return errors.Join(err, folder.Close())
}
