package api

import "strings"

// hiddenWord replaces text that is not shown because it may be a secret.
const hiddenWord = "xxxxx"

// Redacted returns the source in a form that may be shown and logged. Of a URL it hides the user and password before
// the host, and the values of the query, because any of them may be a secret. The path remains readable.
func (u URI) Redacted() string {
	scheme, rest, remote := strings.Cut(u.Source, "://")
	if !remote {
		return u.Source
	}
	rest, fragment, hasFragment := strings.Cut(rest, "#")
	rest, query, hasQuery := strings.Cut(rest, "?")
	host, path, hasPath := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		host = hiddenWord + host[at:]
	}
	text := scheme + "://" + host
	if hasPath {
		text += "/" + path
	}
	if hasQuery {
		text += "?" + redactQuery(query)
	}
	if hasFragment && fragment != "" {
		text += "#" + hiddenWord
	}
	return text
}

// redactQuery hides the values of a query and leaves its names.
func redactQuery(query string) string {
	parts := strings.Split(query, "&")
	for i, part := range parts {
		if name, _, valued := strings.Cut(part, "="); valued {
			parts[i] = name + "=" + hiddenWord
		} else if part != "" {
			parts[i] = hiddenWord // a parameter without a value may itself be the secret
		}
	}
	return strings.Join(parts, "&")
}
