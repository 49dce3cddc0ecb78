// Package routes tells a test which routes of an HTTP server it has not tried. It asks nothing itself.
package routes

import (
	"net/http"
	"net/http/httptest"
	"strings"
)

// Missing returns the patterns, each with its method as http.ServeMux takes it, of which none of the requests is. A request
// is written as METHOD ADDRESS.
func Missing(patterns, requests []string) (missing []string) {
	mux := http.NewServeMux()
	for _, pattern := range patterns {
		mux.Handle(pattern, http.NotFoundHandler())
	}
	tried := map[string]bool{}
	for _, request := range requests {
		method, address, _ := strings.Cut(request, " ")
		_, pattern := mux.Handler(httptest.NewRequest(method, address, nil))
		tried[pattern] = true
	}
	for _, pattern := range patterns {
		if !tried[pattern] {
			missing = append(missing, pattern)
		}
	}
	return missing
}
