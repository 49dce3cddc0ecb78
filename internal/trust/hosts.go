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

// OwnHosts serves requests whose Host is in the certificate that is shown, or is the address that was dialed. Where
// browsers verify the certificate no other Host can be right.
func (h *Holder) OwnHosts(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostOf(r)
		if h.Pass().Certificate().VerifyHostname(host) != nil && !isDialed(host, r) {
			http.Error(w, "the certificate that is shown here does not name this host; ask by a name or an address that it has, or start this process with --advertise", http.StatusMisdirectedRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// isDialed says whether the host is the local address of the request's connection.
func isDialed(host string, r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return false
	}
	dialed, _, err := net.SplitHostPort(local.String())
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.Equal(net.ParseIP(dialed))
}

// hostOf returns the request's Host without its port.
func hostOf(r *http.Request) string {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.Trim(host, "[]"), ".")
}
