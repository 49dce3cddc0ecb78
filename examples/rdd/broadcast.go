package rdd

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// A parameter of a step is sent with each task, unless it is larger than broadcastBytes. Then each executor asks the
// driver for it once, and keeps the last broadcastsKept of such parameters.
const (
	broadcastBytes = 32 << 10
	broadcastsKept = 8
)

// large is a parameter that an executor keeps.
type large struct {
	name  string
	given []byte
}

// broadcast returns a large parameter by its name; if the executor does not have it, it asks the driver.
func (w *worker) broadcast(ctx context.Context, name string) ([]byte, error) {
	w.mu.Lock()
	at := slices.IndexFunc(w.large, func(l large) bool { return l.name == name })
	if at >= 0 {
		defer w.mu.Unlock()
		return w.large[at].given, nil
	}
	w.mu.Unlock()
	body, err := w.client.post(ctx, fmt.Sprintf("http://%s/broadcast?name=%s", w.driver, name), nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	given, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.large = append(w.large, large{name, given})
	w.large = w.large[max(0, len(w.large)-broadcastsKept):]
	return given, nil
}

// serveBroadcast sends a large parameter to an executor.
func (c *Context) serveBroadcast(to http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	given, found := c.large[r.FormValue("name")]
	c.mu.Unlock()
	if !found {
		http.Error(to, "no such parameter", http.StatusNotFound)
		return
	}
	to.Header().Set("Content-Length", fmt.Sprint(len(given)))
	_, _ = to.Write(given) // a reader that gets less than was announced notices
}
