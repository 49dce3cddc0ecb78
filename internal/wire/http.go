package wire

import (
	"net/http"

	"github.com/tenderhq/tender/api"
)

// httpCodes maps kinds of errors to status codes.
var httpCodes = map[api.Kind]int{
	api.Invalid:     http.StatusBadRequest,
	api.NotFound:    http.StatusNotFound,
	api.Exists:      http.StatusConflict,
	api.Stale:       http.StatusConflict,
	api.Fenced:      http.StatusConflict,
	api.Denied:      http.StatusForbidden,
	api.Limit:       http.StatusTooManyRequests,
	api.Unavailable: http.StatusServiceUnavailable,
	api.NotLeader:   http.StatusServiceUnavailable,
	api.Removed:     http.StatusGone,
	api.Unknown:     http.StatusGatewayTimeout,
	api.Unsupported: http.StatusNotImplemented,
}

// HTTPCode returns the status code with which a kind of error is answered over HTTP; 500 for a kind that has none.
func HTTPCode(kind api.Kind) int {
	if code, is := httpCodes[kind]; is {
		return code
	}
	return http.StatusInternalServerError
}
