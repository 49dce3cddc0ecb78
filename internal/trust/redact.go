package trust

import "regexp"

// redacted is written in the place of a secret.
const redacted = "(removed)"

// secrets are how secrets look: tokens, keys in PEM (also with their lines escaped, as in JSON), tickets and other JSON
// web tokens, what is shown as a bearer, passwords in addresses, and values whose name says that they are secret.
var secrets = []struct {
	looks *regexp.Regexp
	with  string
}{
	{regexp.MustCompile(TokenPrefix + `[0-9A-Za-z_.-]+`), TokenPrefix + redacted},
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*KEY-----.*?(-----END [A-Z0-9 ]*KEY-----|$)`), redacted},
	{regexp.MustCompile(`eyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]*\.[0-9A-Za-z_-]*`), redacted},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[0-9A-Za-z+/=._~-]+`), "$1 " + redacted},
	{regexp.MustCompile(`(\w://[^/\s:@"]*):[^/\s@"]+@`), "$1:" + redacted + "@"},
	{regexp.MustCompile(`(?i)([0-9a-z_.-]*(?:passw(?:or)?d|secret|token|api_?key|private_?key|credentials?)[0-9a-z_.-]*["']?\s*[=:]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;&}"']+)`), "$1" + redacted},
}

// Redact removes what looks like a secret from a text that is to be handed to others. It rather removes too much.
func Redact(text string) string {
	for _, secret := range secrets {
		text = secret.looks.ReplaceAllString(text, secret.with)
	}
	return text
}
