//go:build !linux

package secrets

import (
	"errors"
	"os"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/internal/protocol"
)

// Show returns an error, because no folder in memory can be made on this system.
func Show(beneath.Place, entry.User, map[string]protocol.Hidden) error {
	return errors.New("no folder in memory can be made for its secrets on this system; as variables it could have them")
}

// Hide does nothing: there are no secrets folders.
func Hide(beneath.Place) error { return nil }

// Sweep does nothing: there are no secrets folders.
func Sweep(string, func(sandbox string) bool) error { return nil }

// Holds says that no file is a secret.
func Holds(*os.File) bool { return false }
