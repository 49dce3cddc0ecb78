package visitors

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tenderhq/tender/api"
)

// TestAnswer: an agent answers each kind of error with the code with which masters answer it.
func TestAnswer(t *testing.T) {
	for err, want := range map[error]int{
		fs.ErrNotExist: http.StatusNotFound,
		api.E("agent.log-level", api.Unsupported, "", errors.New("no")): http.StatusNotImplemented,
		api.E("agent.files", api.Removed, "", errors.New("no")):         http.StatusGone,
		api.E("agent.state", api.Limit, "", errors.New("no")):           http.StatusTooManyRequests,
		errors.New("no"): http.StatusInternalServerError,
	} {
		answer := httptest.NewRecorder()
		if Answer(answer, err); answer.Code != want {
			t.Errorf("%v is answered by %d, wanted %d", err, answer.Code, want)
		}
	}
}
