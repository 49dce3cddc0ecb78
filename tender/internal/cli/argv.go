package cli

import (
	"strings"
	"unsafe"

	"github.com/tenderhq/tender/internal/trust"
)

// hideTokens returns copies of the arguments of this process, and overwrites in the originals every token, because on
// Linux these are the memory that each other process of the machine can read in /proc/PID/cmdline. It reports whether
// there was one.
func hideTokens(args []string) (copies []string, found bool) {
	for _, arg := range args {
		copies = append(copies, strings.Clone(arg))
		if at := strings.Index(arg, trust.TokenPrefix); at >= 0 {
			found = true
			clear(unsafe.Slice(unsafe.StringData(arg[at:]), len(arg)-at))
		}
	}
	return copies, found
}

// tokenSeen is the warning for whoever has put a token on a command line.
const tokenSeen = "tender: the token on the command line is overwritten, but until now each process of this machine could read it; " +
	"put it into a file (tender token create KIND -o FILE), and name the file: --join FILE"
