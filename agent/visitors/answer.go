package visitors

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"net/http"
	"strconv"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/wire"
)

// AnswerJSON answers with a value as JSON.
func AnswerJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	json.NewEncoder(w).Encode(value) //nolint:errcheck // a client that went away
}

// Answer answers with an error: its text, the HTTP status of its kind, and when to come back.
func Answer(w http.ResponseWriter, err error) {
	code := wire.HTTPCode(api.KindOf(err))
	if errors.Is(err, fs.ErrNotExist) {
		code = http.StatusNotFound
	}
	if after := api.RetryAfter(err); after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	http.Error(w, err.Error(), code)
}
