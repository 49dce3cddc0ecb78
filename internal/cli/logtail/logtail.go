// Package logtail reads a task's output from its agent, from any offset, for as long as there may come more: through
// restarts of the agent and changes of its address, without losing or repeating a byte. It knows nothing of masters.
package logtail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
)

// Stream is one of a task's two outputs.
type Stream string

// The streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// Source is where a stream is read.
type Source struct {
	Task   api.TaskRef
	Stream Stream
	// Address tells where the agent's HTTP listener is now. It is asked again after each failure.
	Address func(ctx context.Context) (string, error)
	// HTTP is the client. Default http.DefaultClient. It must not have a timeout.
	HTTP *http.Client
	// Offset is the first byte wanted; it moves on as bytes are written.
	Offset int64
	// Patience is how long an agent that does not answer is asked again once the task has ended. Default 10 s.
	Patience time.Duration
	// Silence is how long an agent may say nothing in the middle of its answer once the task has ended. Default 10 s.
	Silence time.Duration
}

const (
	pauseMin = 50 * time.Millisecond
	pauseMax = time.Second
	// chunkBytes is read at once.
	chunkBytes = 32 << 10
	// whyBytesMax of an agent's refusal are shown.
	whyBytesMax = 400
)

// ErrNone says that the agent knows no such output: the task never started there, or its folder is gone.
var ErrNone = errors.New("the agent has no such output (any more)")

// writeFailed is an error of the reader's own side: asking again does not help.
type writeFailed struct{ error }

func (w writeFailed) Unwrap() error { return w.error }

// Follow copies the stream to w until the task has ended and everything is written. Ended is closed at the task's
// terminal status: from then on the file does not grow.
func (s *Source) Follow(ctx context.Context, w io.Writer, ended <-chan struct{}) error {
	if err := s.live(ctx, w, ended); err != nil {
		return err
	}
	return s.Rest(ctx, w)
}

// live copies what comes until ended is closed. Only a failing writer and ctx end it earlier.
func (s *Source) live(ctx context.Context, w io.Writer, ended <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	waiting := make(chan struct{})
	defer close(waiting)
	go func() { // ends with live
		select {
		case <-ended:
			cancel()
		case <-waiting:
		}
	}()
	for rest := pauseMin; ; {
		before := s.Offset
		err := s.once(ctx, w, true, silence{})
		switch {
		case errors.As(err, new(writeFailed)):
			return err
		case closed(ended):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case s.Offset > before:
			rest = pauseMin
		}
		if !pause.For(ctx, rest) && !closed(ended) {
			return ctx.Err()
		}
		rest = min(2*rest, pauseMax)
	}
}

// Rest copies what is there now and returns; an agent that does not answer is asked again for a while.
func (s *Source) Rest(ctx context.Context, w io.Writer) error {
	patience := s.Patience
	if patience == 0 {
		patience = 10 * time.Second
	}
	deadline := time.Now().Add(patience)
	for rest := pauseMin; ; rest = min(2*rest, pauseMax) {
		before := s.Offset
		err := s.rest(ctx, w)
		switch {
		case err == nil && s.Offset == before:
			return nil
		case err == nil:
			rest = pauseMin
			continue
		case errors.As(err, new(writeFailed)), errors.Is(err, ErrNone), ctx.Err() != nil:
			return err
		case s.Offset > before:
			deadline = time.Now().Add(patience)
		case time.Now().After(deadline):
			return fmt.Errorf("the %s of %s could not be read to its end: %w", s.Stream, s.Task, err)
		}
		if !pause.For(ctx, rest) {
			return ctx.Err()
		}
	}
}

// errSilent is an agent that took the question and said nothing more: it may be stopped.
var errSilent = errors.New("the agent does not go on with its answer")

// silence ends a request whose agent is silent for too long. Its zero value waits for ever.
type silence struct {
	timer *time.Timer
	most  time.Duration
}

func (s silence) begins() {
	if s.timer != nil {
		s.timer.Reset(s.most)
	}
}

func (s silence) ends() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// rest makes one request for what is there, with an agent that may fall silent.
func (s *Source) rest(ctx context.Context, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	most := s.Silence
	if most == 0 {
		most = 10 * time.Second
	}
	quiet := silence{time.AfterFunc(most, func() { cancel(errSilent) }), most}
	defer quiet.ends()
	err := s.once(ctx, w, false, quiet)
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

// once makes one request and copies its answer.
func (s *Source) once(ctx context.Context, w io.Writer, follow bool, quiet silence) error {
	address, err := s.Address(ctx)
	if err != nil {
		return err
	}
	if address == "" {
		return errors.New("the agent has told no address")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url(address, follow), nil)
	if err != nil {
		return err
	}
	client := s.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // read to its end or given up
	if err := refused(response); err != nil {
		return err
	}
	return s.copy(w, response.Body, quiet)
}

func (s *Source) url(address string, follow bool) string {
	query := url.Values{"offset": {strconv.FormatInt(s.Offset, 10)}}
	if follow {
		query.Set("follow", "1")
	}
	path, err := url.JoinPath("http://"+address, "v1", "logs",
		url.PathEscape(string(s.Task.Framework)), url.PathEscape(string(s.Task.Task)), string(s.Stream))
	if err != nil { // the address is no host:port; the request that follows says so
		path = "http://" + address
	}
	return path + "?" + query.Encode()
}

func refused(response *http.Response) error {
	switch response.StatusCode {
	case http.StatusOK, http.StatusPartialContent, http.StatusNoContent:
		return nil
	case http.StatusNotFound, http.StatusGone:
		return ErrNone
	}
	why, _ := io.ReadAll(io.LimitReader(response.Body, whyBytesMax)) // better than nothing
	return fmt.Errorf("the agent answers %s: %s", response.Status, strings.TrimSpace(string(why)))
}

// copy moves the offset by what was written, so that what is asked for again begins there. A writer
// may take its time: the agent is not silent meanwhile.
func (s *Source) copy(w io.Writer, body io.Reader, quiet silence) error {
	chunk := make([]byte, chunkBytes)
	for {
		quiet.begins()
		n, err := body.Read(chunk)
		quiet.ends()
		if n > 0 {
			wrote, failed := w.Write(chunk[:n])
			s.Offset += int64(wrote)
			if failed != nil {
				return writeFailed{failed}
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
