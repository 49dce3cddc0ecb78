//go:build !linux

package tail

import "os"

// ContentFrom returns the offset, because on this system nothing is given back to the disk.
func ContentFrom(_ *os.File, offset, _ int64) (int64, error) { return offset, nil }
