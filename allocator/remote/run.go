package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/allocator/internal/codec"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	pauseMin = 100 * time.Millisecond // pause before the other process is tried again
	pauseMax = 5 * time.Second
	// answerTimeout is how long the other process may take to answer an Allocate. After that the session is ended: a
	// process that hangs is as good as away.
	answerTimeout = 30 * time.Second
	// pingEvery is how often a process of which nothing is wanted is asked whether it is still there. gRPC servers of
	// all languages end a connection that is pinged more often than every five minutes, unless they are configured
	// otherwise.
	pingEvery = 6 * time.Minute
	// pingTimeout is how long to wait for the answer to a ping and, on Linux, until the other machine has taken what
	// was sent. So a machine that has lost its power is noticed with the next input.
	pingTimeout = 5 * time.Second
	// batchBytes is how much goes into one message.
	batchBytes = api.MessageBytesMax / 2
	// answerBytesMax bounds the messages of one answer, because they are kept until the last one has come. Beyond it
	// the session is ended: no cluster has that many offers.
	answerBytesMax = 256 << 20
)

// parts holds the messages so far of an answer that comes in several messages.
type parts struct {
	allocation allocator.Allocation
	bytes      int
}

// Run keeps a session open until ctx ends. It calls ready whenever something has changed. It calls say when the other
// process is there, and when it is away, with the reason.
func (a *Allocator) Run(ctx context.Context, ready func(), say func(trouble bool, message, why string)) {
	pause := pauseMin
	for ctx.Err() == nil {
		began := time.Now()
		err := a.holdSession(ctx, ready, say)
		if ctx.Err() != nil {
			return
		}
		if a.noteEnd(err) {
			say(true, "allocator is away", err.Error())
		}
		ready()
		if time.Since(began) > pauseMax {
			pause = pauseMin
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
		pause = min(2*pause, pauseMax)
	}
}

// noteEnd notes why there is no session, and reports whether that is news.
func (a *Allocator) noteEnd(err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.away
	if a.session != nil {
		a.since = a.now
	}
	a.session, a.away = nil, err.Error()
	a.answers.reset()
	a.wakeCallers()
	return was != a.away
}

// holdSession opens one session and serves it until it ends; it returns the reason of the end.
func (a *Allocator) holdSession(ctx context.Context, ready func(), say func(trouble bool, message, why string)) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	alive := keepalive.ClientParameters{Time: pingEvery, Timeout: pingTimeout}
	conn, err := transport.Connect(a.config.Argument, a.dial, grpc.WithKeepaliveParams(alive))
	if err != nil {
		return fmt.Errorf("address %s: %w", a.config.Argument, err)
	}
	defer func() { _ = conn.Close() }() // the session's own error says more
	stream, err := apiv1.NewAllocatorServiceClient(conn).Session(ctx)
	if err != nil {
		return wire.Error(err)
	}
	// The stream really is open only when the other side has accepted the greeting.
	if err := stream.Send(&apiv1.AllocatorInputs{First: 1, Hello: codec.HelloOf(a.config)}); err != nil {
		return recvError(stream, err)
	}
	if _, err := stream.Header(); err != nil {
		return wire.Error(err)
	}
	s := a.beginSession()
	say(false, "allocator is there", a.config.Argument)
	ready()
	written := make(chan struct{})
	go func() {
		defer close(written)
		end(a.writeInputs(ctx, stream, s))
	}()
	err = a.readAnswers(stream, s, ready)
	end(err)
	<-written
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// beginSession opens a session, which has to be told everything.
func (a *Allocator) beginSession() *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.session, a.away = newSession(a.mirror), ""
	return a.session
}

// writeInputs sends what the session has to send, until ctx or the session ends.
func (a *Allocator) writeInputs(ctx context.Context, stream apiv1.AllocatorService_SessionClient, s *session) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.kick:
		case <-tick.C:
		}
		batches, err := a.batchesToSend(s)
		if err != nil {
			return err
		}
		for _, batch := range batches {
			if err := stream.Send(batch); err != nil {
				return recvError(stream, err)
			}
		}
	}
}

// batchesToSend returns what waits to be sent, as messages.
func (a *Allocator) batchesToSend(s *session) ([]*apiv1.AllocatorInputs, error) {
	first, queue, questions, codec, err := a.inputsToSend(s)
	if err != nil {
		return nil, err
	}
	var all []*apiv1.AllocatorInputs
	batch := &apiv1.AllocatorInputs{First: first}
	size := 0
	for i, input := range queue {
		m := codec.InputToProto(input)
		bytes := proto.Size(m)
		if size > 0 && size+bytes > batchBytes {
			all = append(all, batch)
			batch, size = &apiv1.AllocatorInputs{First: first + uint64(i)}, 0
		}
		batch.Inputs = append(batch.Inputs, m)
		size += bytes
	}
	batch.Questions = questions
	if len(batch.Inputs) > 0 || len(questions) > 0 {
		all = append(all, batch)
	}
	return all, nil
}

func (a *Allocator) inputsToSend(s *session) (uint64, []inputs.Input, []*apiv1.AllocatorQuestion, codec.Codec, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.broken != nil {
		return 0, nil, nil, a.codec, s.broken
	}
	if s.running && s.arrived == nil && time.Since(s.asked) > answerTimeout {
		return 0, nil, nil, a.codec, fmt.Errorf("it has not answered for %v", answerTimeout)
	}
	first, queue, questions := s.sent+1, s.queue, s.questions
	s.sent += uint64(len(queue))
	s.queue, s.questions = nil, nil
	return first, queue, questions, a.codec, nil
}

// readAnswers takes answers until the stream ends.
func (a *Allocator) readAnswers(stream apiv1.AllocatorService_SessionClient, s *session, ready func()) error {
	var sofar parts
	for {
		m, err := stream.Recv()
		if err != nil {
			return wire.Error(err)
		}
		if sofar, err = a.takeMessage(s, m, sofar); err != nil {
			return err
		}
		if !m.GetMore() {
			ready()
		}
	}
}

// takeMessage handles one message. It puts together the parts of an answer that comes in several messages.
func (a *Allocator) takeMessage(s *session, m *apiv1.AllocatorAnswers, sofar parts) (parts, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, reply := range m.GetReplies() {
		a.takeReply(reply)
	}
	if len(m.GetReplies()) > 0 {
		a.wakeCallers()
	}
	if m.GetSaw() == 0 {
		return sofar, nil
	}
	if err := s.awaits(m.GetSaw()); err != nil {
		return sofar, err
	}
	if sofar.bytes += proto.Size(m); sofar.bytes > answerBytesMax {
		return sofar, fmt.Errorf("its answer to run %d has more than %d bytes", m.GetSaw(), answerBytesMax)
	}
	part, err := a.codec.AllocationFromProto(m)
	if err != nil {
		return sofar, fmt.Errorf("its answer to run %d: %w", m.GetSaw(), err)
	}
	all := &sofar.allocation
	all.Offers = append(all.Offers, part.Offers...)
	all.Inverse = append(all.Inverse, part.Inverse...)
	all.Spared = append(all.Spared, part.Spared...)
	if m.GetMore() {
		return sofar, nil
	}
	s.arrived, s.wake = all, a.codec.Time(m.GetWake())
	return parts{}, nil
}

// recvError returns why a stream has ended on which nothing can be sent any more.
func recvError(stream apiv1.AllocatorService_SessionClient, err error) error {
	if _, why := stream.Recv(); why != nil {
		return wire.Error(why)
	}
	return wire.Error(err)
}
