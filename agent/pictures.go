package agent

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tenderhq/tender/agent/visitors"
	"github.com/tenderhq/tender/api"
)

// An answer that shows everything on an agent is made as a whole, and stays in memory until its reader has taken it. So
// only a few such answers are under way at a time, and each has a time limit.

const (
	// picturesMax is how many of them are under way; further ones wait.
	picturesMax = 8
	// pictureWaitMax is how long one waits. After that it is refused (Limit).
	pictureWaitMax = 3 * time.Second
	// pictureTimeMax is how long a reader may take. After that it is cut off.
	pictureTimeMax = 10 * time.Second
)

// pictures has one place of picturesMax for each answer under way.
type pictures chan struct{}

// bounded serves a request when it has a place, and cuts off a reader that takes too long.
func (p pictures) bounded(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		wait, cancel := context.WithTimeout(r.Context(), pictureWaitMax)
		defer cancel()
		select {
		case p <- struct{}{}:
			defer func() { <-p }()
		case <-wait.Done():
			busy := errors.New("too many look at this agent and do not read; come back in " + pictureWaitMax.String())
			visitors.Answer(w, api.E("agent.state", api.Limit, "", busy).RetryIn(pictureWaitMax))
			return
		}
		connection := http.NewResponseController(w)
		_ = connection.SetWriteDeadline(time.Now().Add(pictureTimeMax)) // with HTTP/2 this is the stream's deadline
		defer func() { _ = connection.SetWriteDeadline(time.Time{}) }()
		serve(w, r)
	}
}
