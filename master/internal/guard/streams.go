package guard

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
)

// stream is an admitted stream that is open, with the decision about it.
type stream struct {
	identity trust.Identity
	row      rights.Row
	scope    rights.Scope
	end      context.CancelCauseFunc
}

// Enter is for an admitted call that lasts long. Its context ends when the caller may no longer make the call, and also
// when the caller's rights have changed, so that the caller calls again and gets the new rights. Call leave when the
// stream has ended; it returns why the guard ended it, or nil.
func (g *Guard) Enter(ctx context.Context) (context.Context, func() error) {
	p, has := permitOf(ctx)
	if !has || g.access.Identify == nil {
		return ctx, func() error { return nil }
	}
	ctx, end := context.WithCancelCause(ctx)
	s := &stream{g.access.Identify(ctx), p.row, p.scope, end}
	g.mu.Lock()
	g.live[s] = struct{}{}
	g.mu.Unlock()
	g.judge(s) // the caller's rights may have changed since the call was admitted
	return ctx, func() error {
		g.mu.Lock()
		delete(g.live, s)
		g.mu.Unlock()
		var ended *api.Error
		cause := context.Cause(ctx)
		end(nil)
		if errors.As(cause, &ended) {
			return ended
		}
		return nil
	}
}

// judge ends a stream that was admitted with other rights than its caller has now.
func (g *Guard) judge(s *stream) {
	scope, err := rights.Decide(s.row, g.known(s.identity))
	switch {
	case err != nil:
		s.end(err)
	case !scope.Equal(s.scope):
		s.end(api.E("rights", api.Unavailable, s.identity.Name, errors.New("what it may do has changed; come back")))
	}
}

// Watch ends streams whose callers' rights change, until ctx ends. The function changed returns a channel that is
// closed when anybody's rights may have changed, because of a principal or a certificate.
func (g *Guard) Watch(ctx context.Context, changed func() <-chan struct{}) {
	for {
		news := changed() // before looking, so that no change is missed
		for _, s := range g.streams() {
			g.judge(s)
		}
		select {
		case <-ctx.Done():
			return
		case <-news:
		}
	}
}

func (g *Guard) streams() []*stream {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]*stream, 0, len(g.live))
	for s := range g.live { // order: irrelevant because each is judged alone
		list = append(list, s)
	}
	return list
}

// OnStream returns the stream with the context of its admitted call.
func OnStream(ctx context.Context, s grpc.ServerStream) grpc.ServerStream { return admitted{s, ctx} }

type admitted struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the context of the admitted call.
func (a admitted) Context() context.Context { return a.ctx }
