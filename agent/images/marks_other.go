//go:build !linux

package images

import (
	"errors"
	"os"
)

func markGone(*os.File, string) error { return errors.ErrUnsupported }

func markOpaque(*os.File) error { return errors.ErrUnsupported }

func isOpaque(*os.File) bool { return false }

func settleDisk(folder *os.File) error { return folder.Sync() }
