//go:build !linux

package beneath

import (
	"errors"
	"io/fs"
	"os"

	"github.com/tenderhq/tender/agent/walls/entry"
)

// openAtOnce returns an error, because on this system one call can't find the way without following links.
func (p Place) openAtOnce() (*os.Root, error) { return nil, errors.ErrUnsupported }

// IsMade returns false, because on this system one call can't find out whether Make would change nothing.
func (p Place) IsMade(entry.User, fs.FileMode) (group int, made bool) { return 0, false }

// OpenFolder opens the place itself, to read its entries.
func (p Place) OpenFolder() (*os.File, error) { return p.OpenFile(".", os.O_RDONLY, 0) }
