//go:build !linux

package paths

import "errors"

var errUnsupported = errors.New("only Linux has Landlock")

// Try says why there can be no rules here.
func Try() (sentences []string, err error) { return nil, errUnsupported }

// Confine restricts nothing here.
func (Reach) Confine() error { return errUnsupported }

// Separate prevents nothing here.
func Separate() error { return errUnsupported }
