//go:build !linux

package process

import "os"

// emptySandbox empties nothing here: this system can't tell whether a file is open elsewhere.
func emptySandbox(*os.File, string) (user int, fit bool) { return 0, false }
