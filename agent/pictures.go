package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tenderhq/tender/agent/visitors"
	"github.com/tenderhq/tender/api"
)

// What shows all that is on an agent is made at once, and in memory until its reader has taken it. So few of these answers
// are under way, and each has its time.

const (
	// picturesMax bounds them; one more waits.
	picturesMax = 8
	// pictureWaitMax is how long it waits. Longer: it is refused (Limit).
	pictureWaitMax = 3 * time.Second
	// pictureTimeMax is how long a reader may take. Longer: it is cut off.
	pictureTimeMax = 10 * time.Second
)

// pictures has a place for each of them.
type pictures chan struct{}

func newPictures() pictures { return make(pictures, picturesMax) }

// bounded serves in a place, and no longer than a reader may take.
func (p pictures) bounded(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		wait, cancel := context.WithTimeout(r.Context(), pictureWaitMax)
		defer cancel()
		select {
		case p <- struct{}{}:
			defer func() { <-p }()
		case <-wait.Done():
			w.Header().Set("Retry-After", fmt.Sprintf("%.0f", pictureWaitMax.Seconds()))
			visitors.Answer(w, api.E("agent.state", api.Limit, "", errors.New("too many look at this agent and do not read; come back in "+pictureWaitMax.String())))
			return
		}
		connection := http.NewResponseController(w)
		_ = connection.SetWriteDeadline(time.Now().Add(pictureTimeMax)) // of HTTP/2 that of the stream
		defer func() { _ = connection.SetWriteDeadline(time.Time{}) }()
		serve(w, r)
	}
}
