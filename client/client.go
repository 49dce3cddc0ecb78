// Package client is for programs that look at a cluster or change it: what `tender get`, `tender drain` and the others
// do. It finds the leading master among those that it was told of, and calls it. When its time is over it gives up, with
// one sentence that says which masters were tried and why each failed.
//
// [Client.Operator], [Client.Raft] and [Client.Jobs] have a method for each call. [Client.Watch] tells what changes, and
// a [Copy] keeps what there is. Errors are of type [*api.Error]; those that are [api.Transient] may be over when the
// call is made again, and the client has done so for a while before it returns one.
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
)

// Config says which masters to try, and as whom. The zero value is usable.
type Config struct {
	// Masters are gRPC addresses, host:port, of some or all masters. Default 127.0.0.1:5060. [Dial] adds the others of the
	// `tender dev` of the same user on this machine that has one of them.
	Masters []string
	// Token lets a program into a cluster with certificates: [Dial] gets a certificate by it, which is renewed until
	// the client is closed. Default: the environment variable TENDER_TOKEN; if that is not set, the token of the `tender
	// dev` of the same user on this machine that has one of the Masters. Without any token nothing is encrypted. [New]
	// ignores it.
	Token string
	// Patience is how long a call looks for a leader before it gives up. Default 4 s; an election takes one or two.
	Patience time.Duration
	// Waiting, if set, is called with why a watch hears nothing at the moment. It goes on by itself.
	Waiting func(error)
	// Dial opens connections to masters. Default TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// DialAgent opens connections to agents. Default TCP.
	DialAgent func(ctx context.Context, address string) (net.Conn, error)
	// Tickets says that agents want tickets, as in a cluster with certificates.
	Tickets bool
	// Keep, if set, runs until the client is closed. It renews in time the certificate that Dial and DialAgent show.
	Keep func(ctx context.Context)
	// Told, if set, is called with the addresses of all masters, the leader first, whenever a master answers that has
	// not answered before. It is called from another goroutine, and not after the client was closed.
	Told func(masters []string)
}

// DefaultMaster is the address of a master if nobody names another one.
const DefaultMaster = "127.0.0.1:5060"

const (
	// attemptMax limits one attempt of a read, so that a master that hangs costs one attempt and not the whole
	// patience.
	attemptMax = 1500 * time.Millisecond
	// actionMax limits one attempt of an action, which may wait for a quorum or an agent.
	actionMax = 20 * time.Second
)

// Client is a gRPC connection to whichever master leads. It may be used from any goroutine.
type Client struct {
	config Config
	leave  func() // ends what New has begun, and waits for it

	ending context.Context // ends with the client, for what runs beside calls
	end    context.CancelFunc
	asking sync.WaitGroup // goroutines that ask for the other masters

	mu      sync.Mutex
	conns   map[string]*grpc.ClientConn
	masters []string          // all known masters
	asked   string            // the last one that was asked for the others
	closed  bool              // no more masters are asked
	leader  string            // the last one that answered as leader; it is tried first
	refuse  map[string]string // by address: why the last dial failed
	foreign map[string]bool   // addresses at which the last dial met another cluster
}

// New makes a client that connects as config.Dial does. It checks the addresses; nothing is dialed before the first
// call.
func New(config Config) (*Client, error) {
	if len(config.Masters) == 0 {
		config.Masters = []string{DefaultMaster}
	}
	if config.Patience == 0 {
		config.Patience = 4 * time.Second
	}
	if config.Dial == nil {
		config.Dial = transport.DialTCP
	}
	if config.DialAgent == nil {
		config.DialAgent = transport.DialTCP
	}
	for _, address := range config.Masters {
		if err := CheckAddress(address); err != nil {
			return nil, api.E("master", api.Invalid, "", err)
		}
	}
	c := &Client{
		config: config, leave: config.keep(), conns: map[string]*grpc.ClientConn{}, masters: slices.Clone(config.Masters), refuse: map[string]string{}, foreign: map[string]bool{},
	}
	c.ending, c.end = context.WithCancel(context.Background())
	return c, nil
}

// keep runs Keep until leave is called.
func (c Config) keep() (leave func()) {
	if c.Keep == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(context.Background())
	var kept sync.WaitGroup
	kept.Go(func() { c.Keep(ctx) })
	return func() {
		stop()
		kept.Wait()
	}
}

// DialMaster connects to a master in the same way as this client.
func (c *Client) DialMaster(ctx context.Context, address string) (net.Conn, error) {
	return c.config.Dial(ctx, address)
}

// DialAgent connects to an agent with the identity of this client.
func (c *Client) DialAgent(ctx context.Context, address string) (net.Conn, error) {
	return c.config.DialAgent(ctx, address)
}

// CheckAddress reports why text can't be the address of a master, or nil.
func CheckAddress(text string) error {
	host, port, err := net.SplitHostPort(text)
	if number, wrong := strconv.Atoi(port); wrong == nil && (number < 1 || number > 65535) {
		return fmt.Errorf("%q is not the address of a master; ports are 1 to 65535", text)
	}
	if err != nil || host == "" || port == "" || strings.ContainsAny(text, " /") {
		return fmt.Errorf("%q is not the address of a master; write HOST:PORT, such as %s", text, DefaultMaster)
	}
	return nil
}

// Operator returns the service for people, at whichever master leads.
func (c *Client) Operator() apiv1.OperatorServiceClient { return apiv1.NewOperatorServiceClient(c) }

// Raft returns the service that changes the quorum, at whichever master leads.
func (c *Client) Raft() apiv1.RaftServiceClient { return apiv1.NewRaftServiceClient(c) }

// Jobs returns the service for jobs; the leader passes its calls on to the job managers.
func (c *Client) Jobs() apiv1.JobServiceClient { return apiv1.NewJobServiceClient(c) }

// Close closes all connections, after a master that was asked for the others has answered or its time is over.
func (c *Client) Close() error {
	c.leave()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.asking.Wait()
	c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	clear(c.conns)
	return errors.Join(errs...)
}

// Invoke makes a call to the leader. The generated clients call it.
func (c *Client) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	// An action may take long, so it does not look for the leader itself: a master that hangs would use up all its
	// time.
	if longest(method) > attemptMax && c.leaderNow() == "" {
		if err := c.findLeader(ctx); err != nil {
			return err
		}
	}
	return c.follow(ctx, method, func(ctx context.Context, conn *grpc.ClientConn) error {
		ctx, cancel := context.WithTimeout(ctx, longest(method))
		defer cancel()
		return conn.Invoke(ctx, method, args, reply, opts...)
	})
}

// NewStream opens a stream to the leader. It finds the leader by a read first, because the refusal of a stream shows
// only when the stream is first read.
func (c *Client) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (stream grpc.ClientStream, err error) {
	if err := c.findLeader(ctx); err != nil {
		return nil, err
	}
	err = c.follow(ctx, method, func(ctx context.Context, conn *grpc.ClientConn) error {
		stream, err = conn.NewStream(ctx, desc, method, opts...)
		return err
	})
	return stream, err
}

// findLeader asks who leads; a follower may know it too.
func (c *Client) findLeader(ctx context.Context) error {
	cluster, err := c.Operator().GetCluster(ctx, &apiv1.GetClusterRequest{})
	if err == nil && cluster.GetLeaderAddress() != "" {
		c.setLeader(cluster.GetLeaderAddress())
	}
	return err
}

// longest returns how long one attempt may take.
func longest(method string) time.Duration {
	name := method[strings.LastIndexByte(method, '/')+1:]
	for _, read := range []string{"List", "Get", "Explain", "StateHash"} {
		if strings.HasPrefix(name, read) {
			return attemptMax
		}
	}
	return actionMax
}

// follow calls one master after the other until one answers as leader, or patience ends. If a master says when to come
// back, neither it nor another one is asked before that. (Protocol rule R34.)
func (c *Client) follow(ctx context.Context, method string, call func(context.Context, *grpc.ClientConn) error) error {
	op := opOf(method)
	search := c.newSearch()
	deadline := time.Now().Add(c.config.Patience)
	for {
		rest := search.Next(search.random)
		if time.Now().Add(rest).After(deadline) {
			return api.E(op, api.Unavailable, "", search.sentence())
		}
		if rest > 0 && !pause.For(ctx, rest) {
			return api.E(op, api.Unavailable, "", context.Cause(ctx))
		}
		err := c.attempt(ctx, search.Address(), call)
		switch {
		case err == nil:
			c.setLeader(search.Address())
			return nil
		case ctx.Err() != nil:
			return api.E(op, api.Unavailable, "", context.Cause(ctx))
		case api.RetryAfter(Error(err)) > 0: // the call was refused before anything of it was done
			wait := protocol.RetryWait(api.RetryAfter(Error(err)), search.random.Uint64())
			if time.Now().Add(wait).After(deadline) {
				return Error(err)
			}
			if !pause.For(ctx, wait) {
				return api.E(op, api.Unavailable, "", context.Cause(ctx))
			}
			search.Again()
		case !c.worthAnother(search, method, err):
			return Error(err)
		case c.isElsewhere():
			return api.E(op, api.Denied, "", search.sentence())
		}
	}
}

func (c *Client) attempt(ctx context.Context, address string, call func(context.Context, *grpc.ClientConn) error) error {
	conn, err := c.conn(address)
	if err != nil {
		return err
	}
	if err := call(ctx, conn); err != nil {
		return err
	}
	c.ask(address, conn)
	return nil
}

// worthAnother notes a failure. It returns true if another master, or a later attempt, may succeed.
func (c *Client) worthAnother(search *search, method string, err error) bool {
	leader := wire.LeaderOf(Error(err))
	if leader == search.Address() {
		leader = "" // it does not lead yet, whatever it says
	}
	search.Failed(Error(err), leader)
	if detail := detailOf(err); detail != nil {
		switch detail.GetKind() {
		case apiv1.ErrorKind_NOT_LEADER:
			search.tell(whyNotLeading(leader, Error(err)))
			search.follow[search.Address()] = true
			return true
		case apiv1.ErrorKind_UNAVAILABLE:
			if longest(method) > attemptMax {
				return false // the leader has tried, and says why it could not do it
			}
			search.refusal = Error(err)
			search.tell(detail.GetMessage())
			return true
		}
		return false
	}
	switch status.Code(err) {
	case codes.Unavailable:
		search.tell(c.whyRefused(search.Address(), err))
		return true
	case codes.DeadlineExceeded:
		search.tell("does not answer")
		return true
	case codes.Unimplemented:
		// Something else listens there, or a master of another version.
		search.tell("is not a Tender master of this version")
		return true
	}
	return false
}

func (c *Client) newSearch() *search {
	c.mu.Lock()
	defer c.mu.Unlock()
	return newSearch(c.masters, c.leader)
}

// leaderNow returns the master that answered last as leader; "" before the first answer.
func (c *Client) leaderNow() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leader
}

func (c *Client) setLeader(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = address
}

func (c *Client) conn(address string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.conns[address]; conn != nil {
		// A round has its own pauses; gRPC's pause after a failure would be longer.
		conn.ResetConnectBackoff()
		return conn, nil
	}
	conn, err := transport.Connect(address, c.dial,
		// Finds a master that vanished without a word while nothing but its silence is heard, as of a watch.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16*api.MessageBytesMax)),
	)
	if err == nil {
		c.conns[address] = conn
	}
	return conn, err
}

// dial remembers why it failed in the words of the system, which gRPC hides.
func (c *Client) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := c.config.Dial(ctx, address)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.refuse, address)
	if err != nil {
		c.refuse[address] = plain(err)
	}
	c.foreign[address] = errors.As(err, new(*trust.ForeignError)) || errors.Is(err, trust.ErrNoTLS)
	return conn, err
}

// isElsewhere reports whether all masters that are known belong to another cluster, or to one without certificates, so that
// no later attempt helps.
func (c *Client) isElsewhere() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(c.masters, func(address string) bool { return !c.foreign[address] })
}

func (c *Client) whyRefused(address string, err error) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if why := c.refuse[address]; why != "" {
		return why
	}
	s, ok := status.FromError(err)
	if ok && strings.Contains(s.Message(), trust.HungUp) {
		return trust.HungUp
	}
	if ok && strings.Contains(s.Message(), "looked like an HTTP/1.1 header") { // the text of Go's HTTP/2
		return "it speaks HTTP/1.1, so it is not the gRPC port of a master, which is 5060 unless said otherwise"
	}
	if ok && !strings.Contains(s.Message(), "desc =") {
		return s.Message()
	}
	return "the connection broke"
}

// plain returns the innermost error of a dial: "connection refused", "no such host".
func plain(err error) string {
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
		return dns.Err
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

func opOf(method string) string { return method[strings.LastIndexByte(method, '/')+1:] }
