package trust

import (
	"net"
	"net/http"
	"strings"
)

// KnownHosts serves requests whose Host is an address, localhost, or one of the names. A page of the web that has its own
// name point at this machine, and so would be of the same origin, is refused.
func KnownHosts(handler http.Handler, names ...string) http.Handler {
	known := map[string]bool{"localhost": true}
	for _, name := range names {
		known[strings.ToLower(name)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.Trim(host, "[]")
		if net.ParseIP(host) == nil && !known[strings.ToLower(strings.TrimSuffix(host, "."))] {
			http.Error(w, "nothing is served here under the name "+host+"; ask by the address, or start this process with --advertise "+host, http.StatusMisdirectedRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})
}
