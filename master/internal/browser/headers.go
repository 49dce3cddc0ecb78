package browser

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"
)

// secureFor is for how long a browser that was here connects to this host only by HTTPS. It is as long as a cookie may
// live, and no longer, because the host may serve others without HTTPS.
const secureFor = sessionMax

// headers returns the headers of every response: no script runs, nothing is loaded except the style of the pages, and
// nothing is cached, framed or told to other sites.
func headers() map[string]string {
	sum := sha256.Sum256([]byte(style))
	return map[string]string{
		"Content-Security-Policy": "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "no-referrer",
		"Strict-Transport-Security":    fmt.Sprintf("max-age=%d", int(secureFor/time.Second)),
		"Cache-Control":                "no-store",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
	}
}

// withHeaders sets these headers on every response.
func withHeaders(handler http.Handler) http.Handler {
	all := headers()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range all { // order: irrelevant because each is set once
			w.Header().Set(name, value)
		}
		handler.ServeHTTP(w, r)
	})
}
