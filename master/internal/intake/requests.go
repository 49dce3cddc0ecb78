package intake

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// requestBytesMax bounds the requests of all calls that are under way, from when they are read until they are
	// answered. Further requests wait, and their connections take turns; a small request does not wait.
	requestBytesMax   = 16 << 20
	requestBytesSmall = 16 << 10
	// requestsReadMax is how many requests of one connection are read at the same time, so that one whose bytes arrive
	// slowly is in nobody else's way.
	requestsReadMax = 4
	// valuesBytesMax bounds the bytes of larger values of one connection that are on their way to the log; a single
	// value may be larger. On that way they take six times as many bytes in memory. It is enough for everything that a
	// connection may write, even if the quorum takes a tenth of a second. Further values wait undecoded, and what is
	// not read yet waits in the connection's windows.
	valuesBytesMax = 256 << 10
	// storeFieldsMax bounds what is in a request to a store: its session, and the writes that a scheduler may have under
	// way. It is counted before anything of it is read.
	storeFieldsMax = 1 + api.StoreLanesMax
)

// Requests serves the calls that have one request and one answer. gRPC would read the requests of all such calls,
// however many there are, before it asks anybody. So these calls are served as streams, which are read only when there
// is room.
type Requests struct {
	desk *Desk
	room *Budget // for bytes
}

// NewRequests makes one whose requests are read at the desk.
func NewRequests(d *Desk) *Requests { return &Requests{d, NewBudget(requestBytesMax)} }

// Served returns the service with its calls as streams. Before its request is read each call goes through first, as
// gRPC does it only for streams of several messages, and then through serve.
func (q *Requests) Served(service grpc.ServiceDesc, first grpc.StreamServerInterceptor, serve grpc.UnaryServerInterceptor) *grpc.ServiceDesc {
	service.Streams = slices.Clone(service.Streams)
	stores := service.ServiceName == apiv1.StoreService_ServiceDesc.ServiceName
	for _, call := range service.Methods {
		info := &grpc.StreamServerInfo{FullMethod: "/" + service.ServiceName + "/" + call.MethodName}
		handle := func(on any, stream grpc.ServerStream) error {
			ctx, leave, read := stream.Context(), func() {}, func() {}
			defer func() { leave() }()
			answer, err := call.Handler(on, ctx, func(request any) (err error) {
				leave, err = q.receive(ctx, stream, request, stores)
				return err
			}, func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
				return serve(ctx, request, info, func(ctx context.Context, request any) (answer any, err error) {
					answer, read, err = Answer(ctx, SenderOf(ctx), OnlyLooks(info.FullMethod), messageBytes, func() (any, error) {
						return handle(ctx, request)
					})
					return answer, err
				})
			})
			if err != nil {
				read()
				return err
			}
			return sendAnswer(stream, answer, read)
		}
		service.Streams = append(service.Streams, grpc.StreamDesc{StreamName: call.MethodName, Handler: func(on any, stream grpc.ServerStream) error {
			return first(on, stream, info, handle)
		}})
	}
	service.Methods = nil
	return &service
}

// receive reads a request when there is room for it. The room is kept until leave is called.
func (q *Requests) receive(ctx context.Context, stream grpc.ServerStream, request any, stores bool) (leave func(), err error) {
	leave = func() {}
	from := SenderOf(ctx)
	select {
	case from.reading <- struct{}{}:
		defer func() { <-from.reading }()
	case <-ctx.Done():
		return leave, ctx.Err()
	}
	if err := payDebts(ctx, from, stores); err != nil { // nothing of this request is in memory meanwhile
		return leave, err
	}
	frame := new(wire.Frame)
	if err := stream.RecvMsg(frame); err != nil {
		return leave, err
	}
	defer frame.Free()
	bytes := frame.Len()
	if err := payForRequest(ctx, from, frame, stores); err != nil {
		return leave, err
	}
	if bytes > requestBytesSmall {
		if leave, err = q.enter(ctx, from, bytes, stores); err != nil {
			return leave, err
		}
	}
	if !q.desk.During(ctx, from, bytes, func() { err = frame.Read(request) }) {
		err = ctx.Err()
	}
	return leave, err
}

// enter waits until there is room for a request that is not small. For a value it waits first for room in what its
// connection may have on its way to the log, then for room in what all calls may have under way.
func (q *Requests) enter(ctx context.Context, from *Sender, bytes int, stores bool) (leave func(), err error) {
	leaveLog := func() {}
	if stores {
		own := min(bytes, valuesBytesMax)
		if !from.values.Take(ctx, nil, from, own) {
			return func() {}, ctx.Err()
		}
		leaveLog = func() { from.values.Give(own) }
	}
	if !q.room.Take(ctx, nil, from, bytes) {
		return leaveLog, ctx.Err()
	}
	return func() {
		q.room.Give(bytes)
		leaveLog()
	}, nil
}

// payDebts holds a connection until it has paid for what it has sent before. The request keeps its place among those
// that are read (requestsReadMax), so what else the connection sends waits in its windows.
func payDebts(ctx context.Context, from *Sender, stores bool) error {
	if err := from.payForCall(ctx, 0); err != nil {
		return err
	}
	if stores && !from.Pay(ctx, StoreExpense, 0) {
		return ctx.Err()
	}
	return nil
}

// payForRequest takes what a request costs. A value for a store is in memory by now, so it is not held here; the next
// value of the sender waits for what this one has cost.
func payForRequest(ctx context.Context, from *Sender, frame *wire.Frame, stores bool) error {
	bytes := frame.Len()
	if !stores {
		return from.payForCall(ctx, float64(LookPrice+bytes))
	}
	fields := frame.Fields()
	if fields > storeFieldsMax {
		return api.E("store.write", api.Limit, "", fmt.Errorf("the request has %d fields and writes, at most %d are allowed", fields, storeFieldsMax))
	}
	if err := from.payForCall(ctx, float64(storePrice+fields*writePrice+bytes)); err != nil {
		return err
	}
	from.owe(StoreExpense, float64(bytes))
	return nil
}
