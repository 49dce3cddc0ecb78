//go:build !linux

package walls

import (
	"errors"

	"github.com/tenderhq/tender/agent/walls/cell"
)

// deviceAt finds no devices here.
func deviceAt(string) (cell.Device, error) {
	return cell.Device{}, errors.New("only Linux lets GPUs be given by their device files")
}
