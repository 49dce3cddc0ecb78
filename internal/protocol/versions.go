package protocol

import (
	"fmt"
	"strconv"
	"strings"
)

// Neighbours returns why two parts of a cluster may not work together, or nil. Their minor versions may differ by one,
// so that a cluster can be upgraded machine by machine (R24). A build without a version number ("devel", a commit)
// counts as a neighbour of every version.
func Neighbours(ours, theirs string) error {
	a, aKnown := versionOf(ours)
	b, bKnown := versionOf(theirs)
	if !aKnown || !bKnown || a.major == b.major && max(a.minor, b.minor)-min(a.minor, b.minor) <= 1 {
		return nil
	}
	return fmt.Errorf("version %s does not work with version %s: minor versions may be one apart; upgrade one minor version at a time",
		theirs, ours)
}

type versionNumber struct{ major, minor uint64 }

// versionOf reads the beginning of a version such as v0.3.1 or v0.3.1-5-gabc (commit).
func versionOf(text string) (versionNumber, bool) {
	text, _, _ = strings.Cut(text, " ")
	digits, numbered := strings.CutPrefix(text, "v")
	parts := strings.SplitN(digits, ".", 3)
	if !numbered || len(parts) < 3 {
		return versionNumber{}, false
	}
	major, err := strconv.ParseUint(parts[0], 10, 32)
	if err != nil {
		return versionNumber{}, false
	}
	least, err := strconv.ParseUint(parts[1], 10, 32)
	return versionNumber{major, least}, err == nil
}
