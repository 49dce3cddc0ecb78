package trust_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/trust"
)

// TestOwnHostsAreTheCertificatesAndTheOneDialed: a listener on all addresses may be reached at one that is not in the
// certificate.
func TestOwnHostsAreTheCertificatesAndTheOneDialed(t *testing.T) {
	authority, err := trust.NewKey().Authority()
	if err != nil {
		t.Fatal(err)
	}
	pass, err := authority.Issue(trust.Identity{Kind: trust.Master, Name: "m1"}, time.Now(), "m1.example", "10.0.0.1", "::1")
	if err != nil {
		t.Fatal(err)
	}
	handler := trust.NewHolder(pass).OwnHosts(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, served := range map[string]bool{
		"m1.example:8443": true, "M1.example": true, "m1.example.": true, "10.0.0.1:8443": true, "[::1]:8443": true, "10.9.9.9:8443": true,
		"10.0.0.2:8443": false, "evil.example": false, "m1.example.evil.example": false, "[::2]": false, "localhost": false, "": false,
	} {
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(10, 9, 9, 9), Port: 8443}))
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		request.Host = host
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, request); (w.Code == http.StatusOK) != served {
			t.Errorf("%q is answered with %d", host, w.Code)
		}
	}
}
