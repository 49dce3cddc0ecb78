package master

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/rs/zerolog"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/intake"
	"google.golang.org/grpc"
)

// calls lets each call and stream in, or refuses it: by rights, by how many are under way, and by principal. It turns
// every error into a status and every panic into an error, and counts and records what comes of it.
type calls struct {
	log     *zerolog.Logger
	guard   *guard.Guard
	metrics *metrics
	proof   *proof

	calls, streams atomic.Int64 // under way
}

// unary turns every error into a gRPC status, and every panic into an error, so that no request ends a master.
func (c *calls) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if evidence := recover(); evidence != nil {
			err = c.panicked(info.FullMethod, evidence)
		}
		c.metrics.called(info.FullMethod, err)
		c.guard.Done(ctx, request, err)
		err = wire.Status(err)
	}()
	if ctx, err = c.guard.Admit(ctx, info.FullMethod); err != nil {
		return nil, c.proof.denied(ctx, info.FullMethod, err)
	}
	end, err := c.guard.Share(ctx, "calls", callsPerPrincipalMax)
	if err != nil {
		return nil, err
	}
	defer end()
	leave, err := admit(&c.calls, callsMax, "calls", info.FullMethod)
	if err != nil {
		return nil, err
	}
	defer leave()
	return handle(ctx, request)
}

// streaming asks the guard before anything is read, and does for streams what unary does for calls. What it needs only at
// the beginning and at the end is in functions of its own: thousands of agents' streams have this on their stacks.
func (c *calls) streaming(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	call := !info.IsClientStream && !info.IsServerStream // a call with one request and one answer; see intake.Requests
	stream, leave, err := c.enter(server, stream, info, handle, call)
	switch {
	case leave != nil:
		defer leave(&err)
		if err != nil {
			return err
		}
		return handle(server, stream)
	case err == nil: // a call, whose handler goes through unary
		err = handle(server, stream)
	}
	return wire.Status(err)
}

// enter lets a stream in. It returns what is to be done at its end, also if that is now; nil: nothing.
func (c *calls) enter(
	server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler, call bool,
) (admitted grpc.ServerStream, leave func(*error), err error) {
	ctx, err := c.guard.Admit(stream.Context(), info.FullMethod)
	if err != nil {
		return nil, nil, c.denyStream(ctx, info.FullMethod, err, func() error {
			if !call {
				return nil // its messages are read only from callers who may send them
			}
			intake.SenderOf(ctx).BelongsTo(guard.CallerOf(ctx).Principal())
			return handle(server, guard.OnStream(ctx, stream)) // unary denies the call, and knows the request
		})
	}
	intake.SenderOf(ctx).BelongsTo(guard.CallerOf(ctx).Principal())
	if call {
		return guard.OnStream(ctx, stream), nil, nil
	}
	var first any // the first message of the request
	ctx, left := c.guard.Enter(ctx)
	shared, counted := func() {}, func() {}
	leave = func(err *error) {
		counted()
		shared()
		if evidence := recover(); evidence != nil {
			*err = c.panicked(info.FullMethod, evidence)
		}
		if ended := left(); ended != nil {
			*err = ended
		}
		c.metrics.called(info.FullMethod, *err)
		c.guard.Done(ctx, first, *err)
		*err = wire.Status(*err)
	}
	if shared, err = c.guard.Share(ctx, "streams", streamsPerPrincipalMax); err != nil {
		shared = func() {}
		return nil, leave, err
	}
	if counted, err = admit(&c.streams, streamsMax, "streams", info.FullMethod); err != nil {
		counted = func() {}
		return nil, leave, err
	}
	stream = guard.OnStream(ctx, stream)
	if !info.IsClientStream {
		stream = intake.Counted(stream)
	}
	if guard.WritesDown(ctx) {
		stream = opened{stream, &first}
	}
	return stream, leave, nil
}

// opened is a stream that keeps its first message.
type opened struct {
	grpc.ServerStream
	first *any
}

// RecvMsg receives a message from the stream, and keeps the first one.
func (o opened) RecvMsg(into any) error {
	err := o.ServerStream.RecvMsg(into)
	if err == nil && *o.first == nil {
		*o.first = into
	}
	return err
}

// denyStream records that a call was denied, and returns the error for its caller.
func (c *calls) denyStream(ctx context.Context, method string, denied error, ask func() error) error {
	alone := c.tellDenied(ctx, denied, ask)
	denied = c.proof.denied(ctx, method, denied)
	if alone {
		c.metrics.called(method, denied)
	}
	return denied
}

// tellDenied tells the guard that a call was denied. If the audit log has a line for such calls, ask continues with the
// call, which is denied again as soon as its request has been read; so the line can name what the call was about. The
// caller may break off before that. It returns true when this was the only report, so that the call has not been
// counted yet.
func (c *calls) tellDenied(ctx context.Context, denied error, ask func() error) (alone bool) {
	if guard.WritesDown(ctx) {
		_ = ask() // whatever reading it returned, the call was denied
	}
	return c.guard.Done(ctx, nil, denied)
}

func (c *calls) panicked(method string, evidence any) error {
	c.log.Error().Str("method", method).Str("evidence", fmt.Sprint(evidence)).Str("stack", string(debug.Stack())).Msg("a call panicked")
	return api.E("master.call", api.Internal, method, fmt.Errorf("the master made a mistake: %v", evidence))
}

// admit counts a call or stream that begins, or refuses it; the returned function ends it.
func admit(under *atomic.Int64, limit int64, what, method string) (leave func(), err error) {
	if under.Add(1) > limit {
		under.Add(-1)
		err := fmt.Errorf("%d %s are under way at this master, which is the most; come back in %v", limit, what, guard.BusyRetry)
		return nil, api.E("master.call", api.Limit, method, err).RetryIn(guard.BusyRetry)
	}
	return func() { under.Add(-1) }, nil
}
