//go:build !linux

package paths

import "errors"

var errUnsupported = errors.New("only Linux has Landlock")

// Try says why there can be no rules here.
func Try() (sentences []string, err error) { return nil, errUnsupported }

// Confine keeps nobody to anything here.
func (Reach) Confine() error { return errUnsupported }

// Separate keeps nobody from anything here.
func Separate() error { return errUnsupported }
