package wire_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenderhq/tender/internal/wire"
)

// wordStream is a stream of words; the test plays its server.
type wordStream struct {
	grpc.ClientStream
	ctx    context.Context
	sent   []string
	closed bool
	down   chan string
}

func (s *wordStream) Send(word *string) error {
	s.sent = append(s.sent, *word)
	return s.ctx.Err()
}

func (s *wordStream) Recv() (*string, error) {
	select {
	case word := <-s.down:
		return &word, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *wordStream) CloseSend() error {
	s.closed = true
	return nil
}

// openWords opens a stream whose server takes some time to answer.
func openWords(life context.Context, t *testing.T, takes, within time.Duration, why error) (*wire.Link[string, string], *wordStream, error) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///nobody", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	opening, opened := context.WithTimeoutCause(life, within, why)
	defer opened()
	stream := &wordStream{down: make(chan string, 8)}
	l, err := wire.Open(life, opening, conn, func(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[string, string], error) {
		stream.ctx = ctx
		select {
		case <-time.After(takes):
			return stream, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	return l, stream, err
}

// packWords makes one message of each word, except of one that does not fit.
func packWords(words []string) (messages []*string, err error) {
	for i := range words {
		if words[i] == "" {
			return messages, errUnfit
		}
		messages = append(messages, &words[i])
	}
	return messages, nil
}

var errUnfit = errors.New("it fits no message")

func TestALinkOpensInTimeOrNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, began := errors.New("no answer in time"), time.Now()
		if _, stream, err := openWords(t.Context(), t, time.Minute, time.Second, late); !errors.Is(err, late) || stream.ctx.Err() == nil {
			t.Errorf("a server that is late: %v; its stream: %v", err, stream.ctx.Err())
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("it was given up after %v", took)
		}
		l, stream, err := openWords(t.Context(), t, time.Second/2, time.Second, late)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour) // the time for opening has long passed
		if stream.ctx.Err() != nil {
			t.Errorf("the stream has ended with its opening: %v", context.Cause(stream.ctx))
		}
		if l.Close(); stream.ctx.Err() == nil {
			t.Error("it outlives its end")
		}
	})
}

func TestALinkEndsWithOneReason(t *testing.T) {
	left, refused := errors.New("the leader has moved"), errors.New("a word that nobody knows")
	for name, test := range map[string]struct {
		end  func(l *wire.Link[string, string], s *wordStream, die func())
		want error
	}{
		"this side leaves":         {func(l *wire.Link[string, string], _ *wordStream, _ func()) { l.Leave(left) }, left},
		"it leaves, then it fails": {func(l *wire.Link[string, string], s *wordStream, _ func()) { l.Leave(left); s.down <- "bad" }, left},
		"a message can't be read":  {func(_ *wire.Link[string, string], s *wordStream, _ func()) { s.down <- "bad" }, refused},
		"a call can't be packed": {func(l *wire.Link[string, string], _ *wordStream, _ func()) {
			wire.Write(l, func(context.Context) ([]string, bool) { return []string{"a", ""}, true }, packWords)
		}, errUnfit},
		"its life ends": {func(_ *wire.Link[string, string], _ *wordStream, die func()) { die() }, context.Canceled},
	} {
		life, die := context.WithCancel(t.Context())
		l, stream, err := openWords(life, t, 0, time.Hour, nil)
		if err != nil {
			t.Fatal(err)
		}
		stream.down <- "good"
		test.end(l, stream, die)
		var heard []string
		why := l.Read(func(word *string) error {
			if *word == "bad" {
				return refused
			}
			heard = append(heard, *word)
			return nil
		})
		if !errors.Is(why, test.want) || len(heard) > 1 {
			t.Errorf("%s: %v; heard %q", name, why, heard)
		}
		l.Close()
		die()
	}
}

func TestALinkWritesInOrderUntilNoMoreComes(t *testing.T) {
	l, stream, err := openWords(t.Context(), t, 0, time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	waiting := [][]string{{"a", "b"}, nil, {"c"}}
	wire.Write(l, func(context.Context) (words []string, more bool) {
		words, waiting = waiting[0], waiting[1:]
		return words, len(waiting) > 0
	}, packWords)
	if want := []string{"a", "b", "c"}; !slices.Equal(stream.sent, want) || !stream.closed {
		t.Errorf("sent %q, want %q; closed: %v", stream.sent, want, stream.closed)
	}
}
