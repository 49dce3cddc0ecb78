// Package platter is a model of a disk that loses what was not synced when its machine loses power: the content of
// files, and their names in their folders.
package platter

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Platter is what a disk really holds: of each file what was synced, under the names that each folder had when that was
// synced. It is used by one goroutine.
type Platter struct {
	contents map[uint64][]byte
	names    map[uint64]map[string]uint64 // by folder
	folders  map[uint64]bool
}

// New returns an empty platter.
func New() *Platter {
	return &Platter{contents: make(map[uint64][]byte), names: make(map[uint64]map[string]uint64), folders: make(map[uint64]bool)}
}

// Sync writes a file as it is now, or a folder with the names in it.
func (p *Platter) Sync(path string) error {
	of, isFolder, err := inode(path)
	if err != nil {
		return err
	}
	if !isFolder {
		p.contents[of], err = os.ReadFile(path)
		return err
	}
	p.names[of], err = p.namesIn(path)
	return err
}

func (p *Platter) namesIn(folder string) (map[string]uint64, error) {
	entries, err := os.ReadDir(folder)
	names := make(map[string]uint64, len(entries))
	for _, entry := range entries {
		of, isFolder, err := inode(filepath.Join(folder, entry.Name()))
		if os.IsNotExist(err) { // it was removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		names[entry.Name()], p.folders[of] = of, isFolder
	}
	return names, err
}

// Survive writes into an empty folder what is left of another one when the power is lost now. A file system may write
// names at any time: keepsNames says that it has written all that there are.
func (p *Platter) Survive(folder, to string, keepsNames bool) error {
	of, _, err := inode(folder)
	if err != nil {
		return err
	}
	all := p.names
	if keepsNames {
		all = make(map[uint64]map[string]uint64)
		err = filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			below, _, err := inode(path)
			if err == nil {
				all[below], err = p.namesIn(path)
			}
			return err
		})
	}
	if err != nil {
		return err
	}
	return p.write(of, all, to)
}

func (p *Platter) write(folder uint64, names map[uint64]map[string]uint64, to string) error {
	for name, of := range names[folder] { // order: irrelevant because each name is by itself
		path := filepath.Join(to, name)
		var err error
		if p.folders[of] {
			if err = os.Mkdir(path, 0o700); err == nil {
				err = p.write(of, names, path)
			}
		} else {
			err = os.WriteFile(path, p.contents[of], 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func inode(path string) (of uint64, isFolder bool, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, false, err
	}
	stat, is := info.Sys().(*syscall.Stat_t)
	if !is {
		return 0, false, fmt.Errorf("%s has no number on this system", path)
	}
	return stat.Ino, info.IsDir(), nil
}
