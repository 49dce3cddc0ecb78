package client

import (
	"context"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// watchAgainMin is the first pause after which a watch that broke is begun again. Each further one is twice as long.
	watchAgainMin = 100 * time.Millisecond
	// watchAgainMax is the longest such pause.
	watchAgainMax = 3 * time.Second
)

// Watch tells what there is, and then every change, in order, until ctx ends. When the leader changes or the connection
// breaks, it goes on at the next leader; a response whose field missed is set says what it could not learn, and that the
// state follows anew. The end of a task that one leader has told last before it died, and the next one tells again, is told
// once as an end, and then as reported again, of the latest 16,384 ends at least. An error is the last thing that it
// yields; nothing that another attempt may cure is one. The responses must not be changed. See [apiv1.WatchRequest].
//
//	for news, err := range c.Watch(ctx, &apiv1.WatchRequest{Kinds: []string{"task"}}) {
func (c *Client) Watch(ctx context.Context, request *apiv1.WatchRequest) iter.Seq2[*apiv1.WatchResponse, error] {
	return watchOver(ctx, c, request, c.config.Waiting)
}

// WatchOver is [Client.Watch] for whoever calls the cluster by a connection of their own.
func WatchOver(ctx context.Context, conn grpc.ClientConnInterface, request *apiv1.WatchRequest) iter.Seq2[*apiv1.WatchResponse, error] {
	return watchOver(ctx, conn, request, nil)
}

func watchOver(
	ctx context.Context, conn grpc.ClientConnInterface, request *apiv1.WatchRequest, waiting func(error),
) iter.Seq2[*apiv1.WatchResponse, error] {
	return func(yield func(*apiv1.WatchResponse, error) bool) {
		w := watch{conn: conn, request: proto.CloneOf(request), yield: yield}
		rest := watchAgainMin
		for {
			heard, err := w.once(ctx)
			switch {
			case w.over:
				return
			case ctx.Err() != nil:
				yield(nil, context.Cause(ctx))
				return
			case !mayComeBack(err):
				yield(nil, err)
				return
			}
			if heard {
				rest = watchAgainMin
			}
			if waiting != nil {
				waiting(err)
			}
			pause.For(ctx, rest)
			rest = min(2*rest, watchAgainMax)
		}
	}
}

// mayComeBack reports whether a watch that broke may go on: at another master, or at the same one after a while. One
// that was ended because it read too slowly resumes.
func mayComeBack(err error) bool { return api.Transient(err) || api.Is(err, api.Limit) }

// watch is a watch from its beginning to its end, over as many streams as it needs.
type watch struct {
	conn    grpc.ClientConnInterface
	request *apiv1.WatchRequest // with the cursor up to which its reader was told everything
	yield   func(*apiv1.WatchResponse, error) bool
	ends    wire.Ends // that it was told
	over    bool      // its reader wants no more
}

// once hears one stream. It reports whether anything came, and why the stream has ended.
func (w *watch) once(ctx context.Context) (heard bool, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	stream, err := apiv1.NewWatchServiceClient(w.conn).Watch(ctx, w.request)
	if err != nil {
		return false, Error(err)
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return heard, Error(err)
		}
		heard = true
		for _, item := range response.GetItems() {
			w.ends.Settle(item.GetEvent())
		}
		if response.GetComplete() {
			w.request.After = response.GetCursor()
		} else if response.GetMissed() != "" {
			w.request.After = nil // what was told counts no more, and the state has only begun
		}
		if !w.yield(response, nil) {
			w.over = true
			return heard, nil
		}
	}
}
