package rdd

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// A parameter of a step travels with each task, unless it is larger than broadcastBytes: then executors ask the driver
// for it once, and keep the last broadcastsKept of them.
const (
	broadcastBytes = 32 << 10
	broadcastsKept = 8
)

// large is a parameter that an executor keeps.
type large struct {
	name  string
	given []byte
}

// broadcast finds a large parameter by its name, or asks the driver for it.
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

// serveBroadcast is the driver's side.
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
