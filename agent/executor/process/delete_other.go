//go:build !linux

package process

import (
	"errors"
	"os"
	"path/filepath"
)

// deleteTree deletes a folder with all in it.
func deleteTree(path string) error { return removeAll(path) }

// removeAll deletes a folder with all in it, also folders that a task has made unreadable.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if err == nil || !errors.Is(err, os.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close()
	walkOpen(root, ".", 64)
	return os.RemoveAll(path)
}

// walkOpen makes folders writable, never outside of the root.
func walkOpen(root *os.Root, name string, depth int) {
	if depth == 0 || root.Chmod(name, 0o700) != nil {
		return
	}
	folder, err := root.Open(name)
	if err != nil {
		return
	}
	defer folder.Close()
	entries, _ := folder.ReadDir(-1) // what can't be listed stays
	for _, entry := range entries {
		if entry.IsDir() {
			walkOpen(root, filepath.Join(name, entry.Name()), depth-1)
		}
	}
}
