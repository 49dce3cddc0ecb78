package web_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

// fake is a cluster that answers each call with what it was told.
type fake struct {
	answers map[string]func() (proto.Message, error) // by method
	called  sync.Map                                 // the methods that were called
	denied  error                                    // why nobody may watch
	told    bool                                     // the state was told once
	takes   time.Duration                            // until it is told
	watches int                                      // that were begun
	state   []*apiv1.Change                          // what a watch tells first
	changed chan *apiv1.Change                       // what it tells then; nil breaks it
}

func (f *fake) Invoke(_ context.Context, method string, _, reply any, _ ...grpc.CallOption) error {
	f.called.Store(method, true)
	answer, known := f.answers[method[strings.LastIndexByte(method, '/')+1:]]
	if !known {
		return wire.Status(api.E("fake", api.Unsupported, method, errors.New("the test has no answer to it")))
	}
	message, err := answer()
	if err != nil {
		return wire.Status(err)
	}
	proto.Merge(reply.(proto.Message), message)
	return nil
}

func (f *fake) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	if f.denied != nil {
		return nil, wire.Status(f.denied)
	}
	f.watches++
	return &watching{ctx: ctx, cluster: f}, nil
}

// watching is a watch that tells the state, and then each change.
type watching struct {
	grpc.ClientStream
	ctx     context.Context
	cluster *fake
	begun   bool
}

func (*watching) SendMsg(any) error { return nil }
func (*watching) CloseSend() error  { return nil }
func (w *watching) RecvMsg(into any) error {
	news := into.(*apiv1.WatchResponse)
	news.Complete, news.Cursor = true, &apiv1.Cursor{}
	if !w.begun {
		w.begun, news.Items = true, w.cluster.state
		if w.cluster.told {
			news.Missed = "it broke"
		}
		w.cluster.told = true
		select {
		case <-time.After(w.cluster.takes):
		case <-w.ctx.Done():
		}
		return w.ctx.Err()
	}
	select {
	case change := <-w.cluster.changed:
		if news.Items = append(news.Items, change); change == nil {
			return wire.Status(api.E("fake", api.Unavailable, "", errors.New("it broke")))
		}
		return nil
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}
