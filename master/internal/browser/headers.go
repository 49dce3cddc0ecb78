package browser

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"
)

// secureFor is for how long a browser that was here speaks to the host only encrypted: as long as a cookie may live. A host may
// serve others without, so it is not longer.
const secureFor = sessionMax

// headers are those of every answer: nothing runs, nothing is loaded but the style of the pages, nothing is kept, framed or
// told to other sites.
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

// withHeaders puts them on every answer.
func withHeaders(handler http.Handler) http.Handler {
	all := headers()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range all { // order: irrelevant because each is set once
			w.Header().Set(name, value)
		}
		handler.ServeHTTP(w, r)
	})
}
