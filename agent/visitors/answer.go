package visitors

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"net/http"
	"strconv"

	"github.com/tenderhq/tender/api"
)

// AnswerJSON answers with a value as JSON.
func AnswerJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	json.NewEncoder(w).Encode(value) //nolint:errcheck // a client that went away
}

// Answer answers with an error: its text, the HTTP status of its kind, and when to come back.
func Answer(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch {
	case errors.Is(err, fs.ErrNotExist), api.Is(err, api.NotFound):
		code = http.StatusNotFound
	case api.Is(err, api.Invalid):
		code = http.StatusBadRequest
	case api.Is(err, api.Denied):
		code = http.StatusForbidden
	case api.Is(err, api.Limit):
		code = http.StatusTooManyRequests
	case api.Is(err, api.Unavailable):
		code = http.StatusServiceUnavailable
	}
	if after := api.RetryAfter(err); after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	http.Error(w, err.Error(), code)
}
