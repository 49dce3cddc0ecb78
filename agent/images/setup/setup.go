// Package setup carries what a task's image says from an agent to its built-in executor: as a file in a folder of the
// task's sandbox that belongs to the agent. The executor may have been started by an earlier process of the agent, and
// finds the file all the same.
//
// If the task's own user has put something else there, it is never believed.
package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/walls/entry"
)

// What stands in a sandbox.
const (
	Folder = ".image"     // the agent's own folder
	Upper  = "upper"      // in it: what the task changes of the image's files
	Work   = "work"       // in it: the kernel's, beside that
	Root   = "root"       // in it: where the task's root is mounted; a copy of the image where the kernel can't lay it over
	note   = "setup.json" // in it
)

// Setup is what a task is started with.
type Setup struct {
	// Image is its reference with the digest that was pulled.
	Image string `json:"image"`
	// Layers are folders with the layers of the image, the lowest first. None: Root is a copy of them.
	Layers []string `json:"layers,omitempty"`
	// Env, Entrypoint, Cmd and WorkingDir are the image's.
	Env        []string `json:"env,omitempty"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	WorkingDir string   `json:"working_dir,omitempty"`
	// StopSignal is what ends it in place of SIGTERM; 0: SIGTERM.
	StopSignal int `json:"stop_signal,omitempty"`
	// User is the user it runs as. Home is the user's folder by the image's list; "": the image does not know the user.
	User entry.User `json:"user"`
	Home string     `json:"home,omitempty"`
}

// Make makes the agent's folder in a sandbox, or opens the one that is there.
func Make(sandbox *os.Root) (*os.Root, error) {
	if err := sandbox.Mkdir(Folder, beneath.Private); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return Open(sandbox)
}

// Open opens the agent's folder in a sandbox.
func Open(sandbox *os.Root) (*os.Root, error) {
	folder, err := sandbox.OpenRoot(Folder)
	if err != nil {
		return nil, err
	}
	named, err := sandbox.Lstat(Folder)
	if err == nil {
		err = own(named, folder)
	}
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return folder, nil
}

// own says why an open folder is not this user's alone, or not what its name says.
func own(named fs.FileInfo, folder *os.Root) error {
	opened, err := folder.Stat(".")
	switch {
	case err != nil:
		return err
	case !os.SameFile(named, opened), !entry.OwnerOf(opened).IsSelf(), opened.Mode().Perm()&^beneath.Private != 0:
		return fmt.Errorf("%s is not the agent's own folder; something else was put in its place", folder.Name())
	}
	return nil
}

// Write leaves the note in the agent's folder of a sandbox.
func (s Setup) Write(folder *os.Root) error {
	text, err := json.Marshal(s)
	if err == nil {
		err = folder.WriteFile(note+".new", text, 0o600)
	}
	if err == nil {
		err = folder.Rename(note+".new", note)
	}
	return err
}

// Read reads the note of a sandbox.
func Read(sandbox string) (s Setup, err error) {
	root, err := os.OpenRoot(sandbox)
	if err != nil {
		return s, err
	}
	defer root.Close()
	folder, err := Open(root)
	if err != nil {
		return s, err
	}
	defer folder.Close()
	text, err := folder.ReadFile(note)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("%s can't be read: %w", filepath.Join(sandbox, Folder, note), err)
	}
	return s, nil
}
