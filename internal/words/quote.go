package words

import "strings"

// Quote quotes a word of a command line for a shell, if that is needed.
func Quote(word string) string {
	if word != "" && !strings.ContainsFunc(word, needsQuotes) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func needsQuotes(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./@:+,=", r))
}
