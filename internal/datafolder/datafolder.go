// Package datafolder checks a folder before a master or an agent begins in it, and asks the system how much room there
// is on its disk. Both close their folder, with everything in it, to the other users of the machine, and /etc or
// somebody's home would then be useless. It changes nothing.
package datafolder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Kind is what a data folder is of.
type Kind struct {
	// Noun is who works in it, as people say it: "an agent".
	Noun string
	// Signs are files of which each proves that one has begun here.
	Signs []string
	// Names are all other things that such a process makes in its folder, before the signs too.
	Names []string
}

// Master and Agent are those there are.
var (
	Master = Kind{
		Noun:  "a master",
		Signs: []string{"master.json", "raft.json"},
		Names: []string{"LOCK", "cluster.key", "history", "operator.token", "raft"},
	}
	Agent = Kind{
		Noun:  "an agent",
		Signs: []string{"identity", "identity.spare", "checkpoint.log"},
		Names: []string{
			"lock", "certificate.pem", "socket", "sockets", "cells",
			"sandboxes", "volumes", "volumes-of", "cache", "images", "trash", "trial",
		},
	}
)

// Check says why a process of the kind must not begin in the folder: another one has, or something lies there that is not
// its own. A folder that is empty or missing is right, and so is one in which it has begun before, whatever lies there now.
func Check(folder string, kind Kind) error {
	entries, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return unreadable(folder, err)
	case signOf(kind, entries) != "":
		return nil
	}
	for _, other := range []Kind{Master, Agent} {
		if sign := signOf(other, entries); sign != "" && other.Noun != kind.Noun {
			return fmt.Errorf("this is the folder of %s, as its file %s says; name an empty folder, or one that is not there yet", other.Noun, sign)
		}
	}
	for _, entry := range entries {
		if !kind.has(entry.Name()) && !isPrivate(entry) {
			return fmt.Errorf("the folder holds %s, and %s shuts its folder to other users with all that lies in it; "+
				"name an empty folder, or one that is not there yet", entry.Name(), kind.Noun)
		}
	}
	return nil
}

// HasBegun says whether a process of the kind has begun in the folder before.
func HasBegun(folder string, kind Kind) bool {
	entries, err := os.ReadDir(folder)
	return err == nil && signOf(kind, entries) != ""
}

// unreadable names what is no folder.
func unreadable(folder string, err error) error {
	if info, failed := os.Stat(folder); failed == nil && !info.IsDir() {
		return errors.New("this is a file, not a folder; name an empty folder, or one that is not there yet")
	}
	return fmt.Errorf("the folder can't be read: %w", err)
}

// signOf is the first sign of the kind among the entries, "" without one.
func signOf(kind Kind, entries []fs.DirEntry) string {
	at := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(kind.Signs, e.Name()) })
	if at < 0 {
		return ""
	}
	return entries[at].Name()
}

// has says whether such a process makes something of the name, or a new file system does.
func (k Kind) has(name string) bool {
	return slices.Contains(k.Names, name) || name == "lost+found" || name == auditLog || strings.HasPrefix(name, auditLog+".")
}

// auditLog is where both write down what people do; older ones have a number behind.
const auditLog = "audit.log"

// isPrivate says whether an entry is a file that only its owner may touch, as the token is that a start is to join by.
func isPrivate(entry fs.DirEntry) bool {
	info, err := entry.Info()
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 == 0
}
