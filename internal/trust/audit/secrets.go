package audit

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tenderhq/tender/api"
)

// hidden replaces what is not written down.
const hidden = "(hidden)"

// environments are the fields that hold environment variables.
var environments = map[string]bool{"env": true, "environment": true}

// withoutSecrets returns JSON without the values of environment variables, and with addresses in the form that may be
// shown. It returns nil for what is not JSON.
func withoutSecrets(text []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil
	}
	text, err := json.Marshal(redact(value))
	if err != nil {
		return nil
	}
	return text
}

// redact changes a value in place.
func redact(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value { // order: irrelevant because each is judged alone
			variables, are := field.(map[string]any)
			if value[name] = redact(field); are && environments[name] {
				for variable := range variables { // order: irrelevant because each is replaced
					variables[variable] = hidden
				}
			}
		}
	case []any:
		for i := range value {
			value[i] = redact(value[i])
		}
	case string:
		return redactAddresses(value)
	}
	return value
}

// redactAddresses hides the secrets in addresses in a text, word by word.
func redactAddresses(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	words := strings.Split(text, " ")
	for i, word := range words {
		words[i] = api.URI{Source: word}.Redacted()
	}
	return strings.Join(words, " ")
}
