//go:build !linux

package inside

import (
	"errors"
	"os"

	"github.com/tenderhq/tender/agent/core"
)

// Entry is the way into a task; here there is none.
type Entry struct{ UID, GID int }

var errUnsupported = errors.New("this agent's system runs no commands inside tasks; Linux does")

func look(core.Process) (*Entry, error) { return nil, errUnsupported }

func (*Entry) prepare(*Session, Command) {}

// Enter is the helper; here it has nothing to do.
func Enter(<-chan os.Signal) error { return errUnsupported }
