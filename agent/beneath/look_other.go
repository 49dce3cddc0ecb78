//go:build !linux

package beneath

import (
	"io/fs"
	"os"

	"github.com/tenderhq/tender/agent/walls/entry"
)

// IsMade returns false, because on this system one call can't find out whether Make would change nothing.
func (p Place) IsMade(entry.User, fs.FileMode) (group int, made bool) { return 0, false }

// OpenFolder opens the place itself, to read its entries.
func (p Place) OpenFolder() (*os.File, error) { return p.OpenFile(".", os.O_RDONLY, 0) }
