package trust

import (
	"net"
	"net/http"
	"strings"
)

// KnownHosts serves requests whose Host is an address, localhost, or one of the names. It refuses pages from a web site
// whose name was made to point at this machine, so that the browser takes us for the same origin.
func KnownHosts(handler http.Handler, names ...string) http.Handler {
	known := map[string]bool{"localhost": true}
	for _, name := range names {
		known[strings.ToLower(name)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostOf(r)
		if net.ParseIP(host) == nil && !known[strings.ToLower(host)] {
			http.Error(w, "nothing is served here under the name "+host+"; ask by the address, or start this process with --advertise "+host, http.StatusMisdirectedRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// hostOf returns the request's Host without its port.
func hostOf(r *http.Request) string {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.Trim(host, "[]"), ".")
}
