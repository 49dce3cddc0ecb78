package trust

import (
	"regexp"
	"sync"
)

// redacted is written in the place of a secret.
const redacted = "(removed)"

// secrets are how secrets look: tokens, keys in PEM (also with their lines escaped, as in JSON), tickets and other JSON
// web tokens, what is shown as a bearer, passwords in addresses, and values whose name says that they are secret.
var secrets = sync.OnceValue(func() []secret {
	return []secret{
		{regexp.MustCompile(TokenPrefix + `[0-9A-Za-z_.-]+`), TokenPrefix + redacted},
		{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*KEY-----.*?(-----END [A-Z0-9 ]*KEY-----|$)`), redacted},
		{regexp.MustCompile(`eyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]*\.[0-9A-Za-z_-]*`), redacted},
		{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[0-9A-Za-z+/=._~-]+`), "$1 " + redacted},
		{regexp.MustCompile(`(\w://[^/\s:@"]*):[^/\s@"]+@`), "$1:" + redacted + "@"},
		{regexp.MustCompile(`(?i)([0-9a-z_.-]*(?:passw(?:or)?d|secret|token|api_?key|private_?key|credentials?)[0-9a-z_.-]*["']?\s*[=:]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;&}"']+)`), "$1" + redacted},
	}
})

// secret is how one looks, and what is written in its place.
type secret struct {
	looks *regexp.Regexp
	with  string
}

// Redact removes what looks like a secret from a text that is to be handed to others. It rather removes too much.
func Redact(text string) string {
	for _, one := range secrets() {
		text = one.looks.ReplaceAllString(text, one.with)
	}
	return text
}
