package master

import (
	"context"
	"io"
	"net/http"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/web"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/browser"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/intake"
)

// addPage adds the page to what is served over HTTP, if it is wanted, and the door at which people without a certificate log in to it.
func (s *httpServer) addPage(mux *http.ServeMux) *pageCluster {
	if s.config.NoPage {
		return nil
	}
	c := &pageCluster{http: s, lists: s.newJSONHandler()}
	c.server = web.New(web.Config{Cluster: c, Agents: s.proof.dialAgent})
	for _, path := range web.Static {
		mux.Handle("GET "+path, s.guard.Route("page files", web.Files(), refusePage))
	}
	page := c.server.Handler()
	if s.proof.holder == nil || s.config.Trust.OpenHTTP {
		mux.Handle("/", s.guard.Route("page /", page, refusePage))
		return c
	}
	door := browser.New(browser.Config{
		Key: s.config.Trust.Key, LogIn: s.masters.logIn, Principals: s.raft.Principals, Metrics: s.metrics.registry, Log: *s.log,
	})
	for pattern, handler := range door.Routes() { // order: irrelevant because the patterns differ
		mux.Handle(pattern, door.Known(s.guard.Route("page "+pattern, handler, door.Refuse)))
	}
	mux.Handle("/", door.Known(s.guard.Route("page /", page, door.Refuse)))
	return c
}

func refusePage(w http.ResponseWriter, _ *http.Request, err error) { writeError(w, err) }

// pageCluster makes the calls of the page: here, if this master can answer, and else at the leader. It makes them in the
// name of the person whom the request's context names. (R72)
type pageCluster struct {
	http   *httpServer
	lists  *jsonHandler
	server *web.Server

	mu      sync.Mutex
	address string           // guarded by mu; where conn leads to
	conn    *grpc.ClientConn // guarded by mu; nil: none
}

// Invoke makes a call. It costs the sender of the request what it costs a program.
func (c *pageCluster) Invoke(ctx context.Context, method string, request, reply any, _ ...grpc.CallOption) error {
	if !intake.SenderOf(ctx).Pay(ctx, intake.CallsExpense, intake.LookPrice) {
		return ctx.Err()
	}
	asked, _ := request.(proto.Message)
	answer, err := c.lists.ask(ctx, method, asked)
	if err == nil {
		if into, is := reply.(proto.Message); is {
			proto.Merge(into, answer)
		}
		return nil
	}
	if wire.Error(err).Kind != api.NotLeader {
		return err
	}
	conn, err := c.leader()
	if err != nil {
		return err
	}
	return conn.Invoke(guard.ForPerson(ctx, trust.Of(ctx)), method, request, reply)
}

// NewStream opens a watch of this master itself, which goes on when another one leads: in the name of the person whom the
// context names, or, where it names nobody, of this master.
func (c *pageCluster) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	s := c.http
	if holder := s.proof.holder; holder != nil && trust.Of(ctx).Kind == trust.Nobody {
		ctx = trust.With(ctx, holder.Pass().Identity())
	}
	ctx, err := s.guard.Admit(ctx, method)
	if err != nil {
		s.guard.Done(ctx, nil, err)
		return nil, s.proof.denied(ctx, method, err)
	}
	leave, err := admit(&s.calls.streams, streamsMax, "streams", method)
	if err != nil {
		return nil, err
	}
	ctx, left := s.guard.Enter(ctx)
	stream := &ownStream{ctx: ctx, answers: make(chan []byte)}
	stream.serve = func() {
		s.leading.beside.Go(func() {
			defer leave()
			err := desc.Handler(s.services.watch, ownServerStream{s: stream})
			if ended := left(); ended != nil {
				err = ended
			}
			if stream.ended = err; err == nil {
				stream.ended = io.EOF
			}
			s.metrics.called(method, err)
			s.guard.Done(ctx, nil, err)
			close(stream.answers)
		})
	}
	return stream, nil
}

// ownStream is a stream of many answers to one request, from this master to itself.
type ownStream struct {
	grpc.ClientStream
	ctx     context.Context
	serve   func()
	request proto.Message
	answers chan []byte
	ended   error // why there are no more answers, once answers is closed
}

func (s *ownStream) Context() context.Context { return s.ctx }

func (s *ownStream) SendMsg(request any) error {
	s.request, _ = request.(proto.Message)
	return nil
}

func (s *ownStream) CloseSend() error {
	s.serve()
	return nil
}

func (s *ownStream) RecvMsg(into any) error {
	body, more := <-s.answers
	if !more {
		return s.ended
	}
	return proto.Unmarshal(body, into.(proto.Message))
}

// ownServerStream is its other end.
type ownServerStream struct {
	grpc.ServerStream
	s *ownStream
}

func (o ownServerStream) Context() context.Context { return o.s.ctx }

func (o ownServerStream) RecvMsg(into any) error {
	proto.Merge(into.(proto.Message), o.s.request)
	return nil
}

func (o ownServerStream) SendMsg(answer any) error {
	body, err := proto.Marshal(answer.(proto.Message))
	if err != nil {
		return err
	}
	select {
	case o.s.answers <- body:
		return nil
	case <-o.s.ctx.Done():
		return o.s.ctx.Err()
	}
}

// leader returns the connection to the leader.
func (c *pageCluster) leader() (*grpc.ClientConn, error) {
	_, address := c.http.leading.leader()
	if address == "" {
		return nil, c.http.leading.notLeader("page")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil && c.address == address {
		return c.conn, nil
	}
	if c.conn != nil {
		_ = c.conn.Close() // its calls end; another one leads
	}
	conn, err := c.http.proof.dialMaster(address)
	c.address, c.conn = address, conn
	return conn, err
}

// close ends the connection, when nothing is asked any more.
func (c *pageCluster) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close()
	}
}
