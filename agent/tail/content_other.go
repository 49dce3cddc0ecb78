//go:build !linux

package tail

import "os"

// contentFrom: nothing is given back to the disk here.
func contentFrom(_ *os.File, offset, _ int64) (int64, error) { return offset, nil }
