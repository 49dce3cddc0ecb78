package settings

import (
	"fmt"
	"strings"

	"github.com/tenderhq/tender/internal/words"
)

// Unknown returns the error that a word is unknown, with the known word that may have been meant.
func Unknown(noun, word string, known []string) error {
	if closest := words.Closest(word, known); closest != "" {
		return fmt.Errorf("%s %q is unknown; did you mean %q?", noun, word, closest)
	}
	return fmt.Errorf("%s %q is unknown; there are %s", noun, word, strings.Join(known, ", "))
}
