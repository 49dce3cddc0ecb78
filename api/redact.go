package api

import "strings"

// hiddenWord stands for what is not shown, as it may be a secret.
const hiddenWord = "xxxxx"

// Redacted is the source as it may be shown and logged: of an address without the user and password that stand before its
// host, and without the values of its query, any of which may be a secret. The file that it names stays to be known.
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

// redactQuery leaves the names of a query.
func redactQuery(query string) string {
	parts := strings.Split(query, "&")
	for i, part := range parts {
		if name, _, valued := strings.Cut(part, "="); valued {
			parts[i] = name + "=" + hiddenWord
		} else if part != "" {
			parts[i] = hiddenWord // a word alone may be the secret
		}
	}
	return strings.Join(parts, "&")
}
