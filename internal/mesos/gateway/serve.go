package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// headersTimeout bounds how long a client may take for the headers of a request.
	headersTimeout = 10 * time.Second
	// idleTimeout ends a connection on which nothing was asked for so long.
	idleTimeout = 2 * time.Minute
	// stopTimeout bounds how long requests that are under way may take once the gateway ends.
	stopTimeout = 5 * time.Second
)

// Serve answers on a listener until ctx ends. rest answers what is no call of a scheduler; nil: it is not found.
// secure says how the gateway proves itself; nil: nothing is encrypted.
func Serve(ctx context.Context, listener net.Listener, config Config, secure *tls.Config, rest http.Handler) error {
	g := New(config)
	mux := http.NewServeMux()
	mux.Handle("/api/v1/scheduler", g)
	mux.Handle("/master/api/v1/scheduler", g)
	if rest != nil {
		mux.Handle("/", rest)
	}
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: headersTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
	if secure != nil { // without HTTP/2: in HTTP/1.1, which old clients speak, each record of a stream is a chunk
		listener = tls.NewListener(listener, secure)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	var err error
	select {
	case err = <-served:
		g.Close()
		return err
	case <-ctx.Done():
	}
	g.Close()
	late, done := context.WithTimeout(context.Background(), stopTimeout)
	defer done()
	if err = server.Shutdown(late); err != nil {
		err = server.Close()
	}
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
