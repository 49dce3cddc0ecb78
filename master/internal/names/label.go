package names

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

const (
	labelBytesMax  = 63
	digestBytes    = 4  // of the digest of a name that is too long for a label
	prefixesMax    = 8  // how many prefixes of a task's ID, or of its name, are names too; longer ones are not
	portBytesMax   = 62 // without the '_' before it
	digestTextSize = 2 * digestBytes
)

// Label returns the DNS label for a name. It is in lower case, has '-' for whatever is neither a letter nor a digit,
// and none at its ends. A label of more than 63 bytes is cut, and ends with a digest of the whole name. A name of which
// nothing is left becomes "x-" with the digest.
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

// labelsOf returns the labels of a task, each once: those of its ID and its name, and those of the parts of them before
// each dot, as "web.0" is one of the tasks of "web".
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
