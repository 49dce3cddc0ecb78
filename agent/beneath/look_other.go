//go:build !linux

package beneath

import (
	"io/fs"
	"os"

	"github.com/tenderhq/tender/agent/walls/entry"
)

// IsMade says whether Make would surely change nothing, which can't be seen at one call here.
func (p Place) IsMade(entry.User, fs.FileMode) bool { return false }

// OpenFolder opens the place itself, to read what is in it.
func (p Place) OpenFolder() (*os.File, error) { return p.OpenFile(".", os.O_RDONLY, 0) }
