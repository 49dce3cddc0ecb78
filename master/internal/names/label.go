package names

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

const (
	labelBytesMax  = 63
	digestBytes    = 4  // of what is too long for a label
	prefixesMax    = 8  // of a task's ID; what begins later has no name of its own
	portBytesMax   = 62 // behind the '_'
	digestTextSize = 2 * digestBytes
)

// Label is the label of DNS for a name: in lower case, with '-' for whatever is neither a letter nor a digit, and without
// one at its ends. What is longer than 63 bytes is cut, and ends with a digest of all of it; so does a name of which
// nothing is left.
func Label(name string) string { return labelOf(name, labelBytesMax) }

func labelOf(name string, most int) string {
	label := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, name), "-")
	if label != "" && len(label) <= most {
		return label
	}
	sum := sha256.Sum256([]byte(name))
	digest := hex.EncodeToString(sum[:digestBytes])
	if label == "" {
		return "x-" + digest
	}
	return label[:most-1-digestTextSize] + "-" + digest
}

// labelsOf are the labels of a task: its ID's, its name's, and those of what stands before each dot in them, as
// "web.0" is one of the tasks of "web". Each is there once.
func labelsOf(id, name string) (labels []string) {
	for _, whole := range []string{id, name} {
		if whole == "" {
			continue
		}
		labels = append(labels, Label(whole))
		found := 0
		for i, c := range whole {
			if c == '.' && i > 0 && found < prefixesMax {
				found++
				labels = append(labels, Label(whole[:i]))
			}
		}
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}
