//go:build !linux

package inside

import (
	"errors"
	"os"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/internal/frames"
)

// Entry describes how to enter a task; on this system that is not possible.
type Entry struct{ UID, GID int }

var errUnsupported = errors.New("this agent's system runs no commands inside tasks; Linux does")

func look(core.Process) (*Entry, error) { return nil, errUnsupported }

func (*Entry) prepare(*Session, frames.Command) {}

// Enter is the main function of the helper; on this system it does nothing.
func Enter(<-chan os.Signal) error { return errUnsupported }
