// Package logtail reads a task's outputs from its agent, from any offset, for as long as there may come more: through
// restarts of the agent and changes of its address, without losing or repeating a byte. It knows nothing of masters.
package logtail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/agent/tail"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/sandbox"
	"github.com/tenderhq/tender/internal/trust"
)

// Stream is one of a task's two outputs.
type Stream string

// The streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// Output is one stream of a task that is being read.
type Output struct {
	Stream Stream
	To     io.Writer
	// Offset is the offset of the next byte that is wanted; it grows as bytes are written.
	Offset int64
	// Lines asks for that many last lines only. Since leaves out present content if nothing was written for that long.
	// Both become 0, which means everything, once the agent has said where that begins.
	Lines int
	Since time.Duration
	// Dropped is called with the number of bytes that come next and are not kept any more. It may be nil.
	Dropped func(bytes int64)
}

// Transport returns a transport to agents that uses the dialer, which proves and checks identities if there are any.
func Transport(dial func(ctx context.Context, address string) (net.Conn, error)) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) }}
}

// Source reads outputs of a task, all of them by one request.
type Source struct {
	Task    api.TaskRef
	Outputs []*Output
	// Executor asks for the outputs of the task's executor instead of its own.
	Executor bool
	// Address tells where the agent's HTTP listener is now. It is asked again after each failure, unless it says that
	// there is none ("").
	Address func(ctx context.Context) (string, error)
	// Ticket returns the ticket that the agent is shown; it is called for each request. Nil: no ticket is shown, as in
	// a cluster without certificates. If the ticket is refused, by the leader or by the agent, reading stops.
	Ticket func(ctx context.Context) (string, error)
	// HTTP is the client. Default http.DefaultClient. It must not have a timeout.
	HTTP *http.Client
	// Patience is how long to ask again after the task has ended, if the agent does not answer. Default 10 s.
	Patience time.Duration
	// Silence is how long the agent may send nothing in the middle of its answer after the task has ended. Default 10
	// s.
	Silence time.Duration
}

const (
	pauseMin = 50 * time.Millisecond
	pauseMax = time.Second
	// whyBytesMax is how many bytes of an agent's refusal are shown.
	whyBytesMax = 400
)

// ErrNone means that the agent has no such output: the task never started there, or its folder was deleted.
var ErrNone = errors.New("the agent has no such output (any more)")

// writeFailed is an error of the reader's own side, which asking again does not help.
type writeFailed struct{ error }

func (w writeFailed) Unwrap() error { return w.error }

// Follow copies the outputs until the task has ended and everything was written. ended is closed when the task's
// terminal status is known: from then on the files do not grow, and an agent that sends nothing is not waited for much
// longer.
func (s *Source) Follow(ctx context.Context, ended <-chan struct{}) error {
	whole, err := s.live(ctx, ended)
	if whole || err != nil {
		return err
	}
	return s.Rest(ctx)
}

// live copies what comes until the agent says that this was everything, or until an answer breaks off after the task's
// end. It returns an error only if a writer fails, the agent denies the request, or ctx ends.
func (s *Source) live(ctx context.Context, ended <-chan struct{}) (whole bool, err error) {
	for rest := pauseMin; !closed(ended); {
		before := s.offset()
		err := s.once(ctx, true, ended)
		switch {
		case err == nil:
			return true, nil
		case isFinal(err):
			return false, err
		case ctx.Err() != nil:
			return false, ctx.Err()
		case s.offset() > before:
			rest = pauseMin
		}
		if !pauseUnless(ctx, ended, rest) {
			return false, ctx.Err()
		}
		rest = min(2*rest, pauseMax)
	}
	return false, nil
}

// pauseUnless pauses for that long, or until ended is closed. It returns false if ctx has ended.
func pauseUnless(ctx context.Context, ended <-chan struct{}, long time.Duration) bool {
	select {
	case <-time.After(long):
	case <-ended:
	case <-ctx.Done():
		return false
	}
	return true
}

// Rest copies what is there now and returns. An agent that does not answer is asked again for a while.
func (s *Source) Rest(ctx context.Context) error {
	patience := s.Patience
	if patience == 0 {
		patience = 10 * time.Second
	}
	deadline := time.Now().Add(patience)
	for rest := pauseMin; ; rest = min(2*rest, pauseMax) {
		before := s.offset()
		err := s.once(ctx, false, always)
		switch {
		case err == nil:
			return nil
		case isFinal(err), errors.Is(err, ErrNone), ctx.Err() != nil:
			return err
		case s.offset() > before:
			deadline, rest = time.Now().Add(patience), pauseMin
		case time.Now().After(deadline):
			return fmt.Errorf("the %s of %s could not be read to its end: %w", s.names(), s.Task, err)
		}
		if !pause.For(ctx, rest) {
			return ctx.Err()
		}
	}
}

// isFinal says that asking again does not help: the writer fails, the reader may not read this, or nobody can.
func isFinal(err error) bool {
	return errors.As(err, new(writeFailed)) || api.Is(err, api.Denied) || errors.Is(err, sandbox.ErrNoAddress)
}

// offset returns how many bytes of all outputs were written.
func (s *Source) offset() (sum int64) {
	for _, output := range s.Outputs {
		sum += output.Offset
	}
	return sum
}

func (s *Source) names() string {
	var names []string
	for _, output := range s.Outputs {
		names = append(names, string(output.Stream))
	}
	return strings.Join(names, " and ")
}

// always is the closed channel of a task that has ended.
var always = func() chan struct{} {
	ended := make(chan struct{})
	close(ended)
	return ended
}()

// errSilent means that the agent accepted the request and sent nothing more: it may be stopped.
var errSilent = errors.New("the agent does not go on with its answer")

// once makes one request and copies its answer; nil: that was everything. After ended is closed, an agent that falls
// silent is given up.
func (s *Source) once(ctx context.Context, follow bool, ended <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := s.watchSilence(cancel)
	defer quiet.stop()
	if closed(ended) {
		quiet.begin()
	} else {
		waiting := make(chan struct{})
		defer close(waiting)
		go func() { // it ends with once
			select {
			case <-ended:
				quiet.begin()
			case <-waiting:
			}
		}()
	}
	err := s.ask(ctx, follow, quiet)
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

func (s *Source) ask(ctx context.Context, follow bool, quiet *silence) error {
	address, err := s.Address(ctx)
	if err != nil {
		return err
	}
	if address == "" {
		return fmt.Errorf("the %s of %s can't be read: %w", s.names(), s.Task, sandbox.ErrNoAddress)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url(address, follow), nil)
	if err != nil {
		return err
	}
	if s.Ticket != nil {
		ticket, err := s.Ticket(ctx)
		if err != nil {
			return err
		}
		trust.ShowTicket(request, ticket)
	}
	client := s.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end, or is no longer wanted
	if err := refused(response); err != nil {
		return err
	}
	return tail.ReadFrames(response.Body, func(kind byte, content []byte) error { return s.take(kind, content, quiet) })
}

// take writes content and moves the offset, so that a repeated request begins there. A writer may take its time; the
// agent does not count as silent meanwhile.
func (s *Source) take(kind byte, content []byte, quiet *silence) error {
	quiet.pause()
	defer quiet.resume()
	for _, output := range s.Outputs {
		switch kind {
		case offsetKindOf(output.Stream):
			output.moveTo(tail.OffsetOf(content))
		case kindOf(output.Stream):
			wrote, err := output.To.Write(content)
			output.Offset += int64(wrote)
			if err != nil {
				return writeFailed{err}
			}
		}
	}
	return nil
}

// moveTo goes on at another offset, because what was asked for begins there, or what is before is not kept any more.
func (o *Output) moveTo(offset int64) {
	if o.Lines == 0 && o.Since == 0 && o.Dropped != nil && offset > o.Offset {
		o.Dropped(offset - o.Offset)
	}
	o.Offset, o.Lines, o.Since = offset, 0, 0
}

func offsetKindOf(stream Stream) byte {
	if stream == Stderr {
		return tail.FrameStderrAt
	}
	return tail.FrameStdoutAt
}

func kindOf(stream Stream) byte {
	if stream == Stderr {
		return tail.FrameStderr
	}
	return tail.FrameStdout
}

func (s *Source) url(address string, follow bool) string {
	query := url.Values{}
	for _, output := range s.Outputs {
		name := string(output.Stream)
		query.Set(name, strconv.FormatInt(output.Offset, 10))
		if output.Lines > 0 {
			query.Set(name+".lines", strconv.Itoa(output.Lines))
		}
		if output.Since > 0 {
			query.Set(name+".since", output.Since.String())
		}
	}
	if follow {
		query.Set("follow", "1")
	}
	if s.Executor {
		query.Set("executor", "1")
	}
	path, err := url.JoinPath("http://"+address, "v1", "output",
		url.PathEscape(string(s.Task.Framework)), url.PathEscape(string(s.Task.Task)))
	if err != nil { // the address is not HOST:PORT; the request that follows reports it
		path = "http://" + address
	}
	return path + "?" + query.Encode()
}

func refused(response *http.Response) error {
	switch response.StatusCode {
	case http.StatusOK, http.StatusPartialContent, http.StatusNoContent:
		return nil
	}
	why, _ := io.ReadAll(io.LimitReader(response.Body, whyBytesMax)) // an incomplete text is better than none
	if code := response.StatusCode; code == http.StatusNotFound && !strings.HasPrefix(string(why), "404 page not found") || code == http.StatusGone {
		return ErrNone
	}
	if response.StatusCode == http.StatusForbidden {
		return api.E("task.output", api.Denied, "", errors.New(strings.TrimSpace(string(why))))
	}
	return fmt.Errorf("the agent answers %s: %s", response.Status, strings.TrimSpace(string(why)))
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
