package rdd

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Network is how driver and executors connect to each other.
type Network struct {
	// Listen opens a port. Default: any free one of the host.
	Listen func(host string) (net.Listener, error)
	// Dial connects to what Listen has opened. Default: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (n Network) filled() Network {
	if n.Listen == nil {
		n.Listen = func(host string) (net.Listener, error) { return net.Listen("tcp", net.JoinHostPort(host, "0")) }
	}
	return n
}

// client makes requests with the context's token; requests without it are refused.
type client struct {
	token string
	http  http.Client
}

func newClient(network Network, token string) *client {
	transport := &http.Transport{DialContext: network.Dial, MaxIdleConnsPerHost: 8, DisableCompression: true}
	return &client{token: token, http: http.Client{Transport: transport}}
}

const tokenHeader = "Rdd-Token"

// post sends a value, and returns the body of the answer, which the caller must close.
func (c *client) post(ctx context.Context, address, path string, value any) (io.ReadCloser, error) {
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(value); err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path, &body)
	if err != nil {
		return nil, err
	}
	request.Header.Set(tokenHeader, c.token)
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // the status says enough
		err := errors.New(answer.Status)
		if answer.StatusCode == http.StatusGone {
			err = errGone
		}
		return nil, fmt.Errorf("%s%s: %w: %s", address, path, err, said)
	}
	return answer.Body, nil
}

// guarded answers only requests that have the token.
func guarded(token string, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get(tokenHeader)), []byte(token)) != 1 {
			http.Error(w, "the token is not that of this context", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// headersMax is how long a connection may take to send its request's headers.
const headersMax = 10 * time.Second

// serve answers requests until the returned function is called.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) (stop func()) {
	server := &http.Server{Handler: handler, BaseContext: func(net.Listener) context.Context { return ctx }, ReadHeaderTimeout: headersMax}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // it returns when it is closed or its listener fails; clients notice that
	}()
	return func() {
		_ = server.Close() // there is nothing else to do about an error
		<-ended
	}
}

// pause waits for d; it ends early with an error if ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
