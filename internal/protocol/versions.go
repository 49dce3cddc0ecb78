package protocol

import (
	"fmt"
	"strconv"
	"strings"
)

// Neighbours says why two parts of a cluster may not work together, or nil: their minor
// versions may be one apart, so that a cluster can be upgraded machine by machine (R24).
// Builds without a number ("devel", a commit) are taken for neighbours of everybody.
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

// versionOf reads the head of v0.3.1, v0.3.1-5-gabc (commit) and the like.
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
