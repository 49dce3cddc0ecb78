package settings

import (
	"fmt"
	"strings"

	"github.com/tenderhq/tender/internal/words"
)

// Unknown says that word is none of the known ones, and which it may have been.
func Unknown(noun, word string, known []string) error {
	if closest := words.Closest(word, known); closest != "" {
		return fmt.Errorf("%s %q is unknown; did you mean %q?", noun, word, closest)
	}
	return fmt.Errorf("%s %q is unknown; there are %s", noun, word, strings.Join(known, ", "))
}
