// Package forward forwards calls of the job service to the framework that serves it, with who makes them, so that people
// need only the masters' addresses. It decides nothing but which framework: the framework's answer is passed on.
package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/invariant"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/view"
)

// JobsEndpoint is the name of the endpoint at which a framework serves the job service.
const JobsEndpoint = "jobs"

// Jobs knows the job managers to which calls are passed.
type Jobs struct {
	// Managers returns the endpoints of the job managers, active or not.
	Managers func(ctx context.Context) ([]view.Endpoint, error)
	// Dial opens a connection to an address. It proves this master's identity, and checks the manager's.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	mu    sync.Mutex
	conns map[string]*grpc.ClientConn // by address; only of managers that there were at the latest call
}

// roleOf returns the role of the job that a request brings; "": it names none.
func roleOf(request any) api.Role {
	brings, is := request.(interface{ GetJob() *structpb.Struct })
	if !is {
		return ""
	}
	return api.Role(brings.GetJob().GetFields()["role"].GetStringValue())
}

// manager returns a connection to the manager that the request is for, and the context of the forwarded call, which says
// who makes it.
func (j *Jobs) manager(ctx context.Context, request any) (*grpc.ClientConn, context.Context, error) {
	names, _ := request.(interface{ GetManager() string })
	if names == nil {
		return nil, nil, api.E(op, api.Internal, "", fmt.Errorf("a %T does not say which manager it is for", request))
	}
	managers, err := j.Managers(ctx)
	if err != nil {
		return nil, nil, err
	}
	chosen, err := Choose(managers, names.GetManager(), roleOf(request))
	if err != nil {
		return nil, nil, err
	}
	if ctx, err = wire.WithJobCaller(ctx, guard.ScopeOf(ctx)); err != nil {
		return nil, nil, err
	}
	conn, err := j.connect(chosen.Address, managers)
	if err != nil {
		return nil, nil, api.E(op, api.Unavailable, chosen.Address, err)
	}
	return conn, ctx, nil
}

// connect returns a connection to the address. It closes those to addresses that no manager has any more.
func (j *Jobs) connect(address string, managers []view.Endpoint) (*grpc.ClientConn, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for old, conn := range j.conns { // order: irrelevant because each is closed by itself
		if !slices.ContainsFunc(managers, func(one view.Endpoint) bool { return one.Address == old }) {
			_ = conn.Close() // its calls end; nobody serves there any more
			delete(j.conns, old)
		}
	}
	if conn := j.conns[address]; conn != nil {
		return conn, nil
	}
	conn, err := transport.Connect(address, j.Dial,
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, MaxDelay: time.Second}}))
	if err != nil {
		return nil, err
	}
	if j.conns == nil {
		j.conns = make(map[string]*grpc.ClientConn)
	}
	j.conns[address] = conn
	return conn, nil
}

// Close ends the connections.
func (j *Jobs) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, conn := range j.conns { // order: irrelevant because all are closed
		errs = append(errs, conn.Close())
	}
	clear(j.conns)
	return errors.Join(errs...)
}

// told makes a sentence of an error of the transport. An error of the manager stays as it is.
func told(err error) error {
	answer, _ := status.FromError(err)
	if answer.Code() == codes.Unavailable && len(answer.Details()) == 0 {
		return api.E(op, api.Unavailable, "", fmt.Errorf("the job manager does not answer; another one may take over: %s", answer.Message()))
	}
	return err
}

// Service describes the job service as a master serves it by [Jobs]: whatever it is asked it passes on, so that a new
// method needs nothing here.
func Service() grpc.ServiceDesc {
	service := apiv1.JobService_ServiceDesc
	service.HandlerType, service.Methods, service.Streams = (*any)(nil), nil, nil
	methods := apiv1.File_api_v1_jobs_proto.Services().ByName("JobService").Methods()
	for i := range methods.Len() {
		one, name := methods.Get(i), string(methods.Get(i).Name())
		m := method{"/" + service.ServiceName + "/" + name, typeOf(one.Input()), typeOf(one.Output())}
		if one.IsStreamingServer() {
			service.Streams = append(service.Streams, grpc.StreamDesc{StreamName: name, ServerStreams: true, Handler: m.passStream})
		} else {
			service.Methods = append(service.Methods, grpc.MethodDesc{MethodName: name, Handler: m.pass})
		}
	}
	return service
}

func typeOf(message protoreflect.MessageDescriptor) protoreflect.MessageType {
	compiled, err := protoregistry.GlobalTypes.FindMessageByName(message.FullName())
	invariant.Check(err == nil, "%s is in the package of the job service and not compiled in: %v", message.FullName(), err)
	return compiled
}

// method is a method of the job service.
type method struct {
	path            string
	request, answer protoreflect.MessageType
}

// pass forwards a call that has one answer.
func (m method) pass(server any, ctx context.Context, read func(any) error, through grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // gRPC's order
	request := m.request.New().Interface()
	if err := read(request); err != nil {
		return nil, err
	}
	return through(ctx, request, &grpc.UnaryServerInfo{Server: server, FullMethod: m.path}, func(ctx context.Context, request any) (any, error) {
		conn, ctx, err := server.(*Jobs).manager(ctx, request)
		if err != nil {
			return nil, err
		}
		answer := m.answer.New().Interface()
		return answer, told(conn.Invoke(ctx, m.path, request, answer))
	})
}

// passStream forwards a call and all of its answers, until the caller or the manager ends it.
func (m method) passStream(server any, to grpc.ServerStream) error {
	request := m.request.New().Interface()
	if err := to.RecvMsg(request); err != nil {
		return err
	}
	conn, ctx, err := server.(*Jobs).manager(to.Context(), request)
	if err != nil {
		return err
	}
	from, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, m.path)
	if err == nil {
		err = errors.Join(from.SendMsg(request), from.CloseSend())
	}
	for err == nil {
		answer := m.answer.New().Interface()
		if err = from.RecvMsg(answer); err == nil {
			err = to.SendMsg(answer)
		}
	}
	return told(err)
}
