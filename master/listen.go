package master

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tenderhq/tender/api"
)

// listen opens a listener, or says what is wrong with its address.
func (c Config) listen(what, address string) (net.Listener, error) {
	listener, err := c.Listen(address)
	switch {
	case err == nil:
		return listener, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, api.E("master.listen", api.Exists, address,
			fmt.Errorf("the %s port is in use; end what listens there, or choose another port", what))
	case errors.Is(err, syscall.EACCES):
		return nil, api.E("master.listen", api.Denied, address, fmt.Errorf("this user may not open the %s port: %w", what, err))
	}
	return nil, api.E("master.listen", api.Unavailable, address, fmt.Errorf("the %s listener can't be opened: %w", what, err))
}

// lockFolder makes the folder and holds it until the file is closed.
func lockFolder(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, api.E("master.open", api.Unavailable, dir, fmt.Errorf("the data folder can't be made: %w", err))
	}
	file, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, api.E("master.open", api.Unavailable, dir, fmt.Errorf("the data folder can't be locked: %w", err))
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, api.E("master.open", api.Exists, dir,
			errors.New("the data folder is in use by another master; each master needs a folder of its own"))
	}
	return file, nil
}
