// Package names answers DNS questions about where tasks can be reached that have ports and are ready.
//
//	NAME.FRAMEWORK.tender.               A and AAAA: their agents' addresses; SRV: all their ports
//	_PORT._tcp.NAME.FRAMEWORK.tender.    SRV: the port of that name
//	FRAMEWORK.tender.                    the same of all tasks of the framework
//	AGENT.agents.tender.                 A or AAAA: the agent, which is what SRV names
//
// It owns two sockets, one for UDP and one for TCP, and a short-lived copy of what it has read from the master. It
// knows no other domain, asks no other server, and changes nothing. It does not check identities: everybody who can
// reach it gets the same answers.
//
// The cost of questions is bounded. A limited number is answered at a time, and the others are dropped or refused. Each
// source is sent so many bytes a second over UDP, beyond which its answers say only that it should ask over TCP. The
// leader is asked for a framework's tasks once in five seconds at most, or once a second while it fails to answer, and
// never for a name that no framework has. In a flood the kernel drops packets for which its queue has no room. So a
// single question right behind a flood may be lost, and the resolver must ask again.
package names

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// answersMax is how many questions are answered at a time. One more is dropped over UDP, and refused with SERVFAIL
	// over TCP. Resolvers then ask again, or ask another master.
	answersMax = 256
	// packetBytesMax is the length of an answer over UDP at most, even if the question allows more: larger packets may
	// be fragmented on their way and lost. A longer answer is truncated, and the resolver asks again over TCP.
	packetBytesMax = 1232
	// questionBytesMax is the length of a question over UDP at most. A longer one is cut off there, and is then
	// malformed.
	questionBytesMax = 512
	// connectionsMax is how many TCP connections there may be. One more is closed at once.
	connectionsMax = 128
	// questionsPerConnectionMax is how many questions a connection may carry. After these it is closed.
	questionsPerConnectionMax = 128
	// connectionTimeout is how long a connection may take to send a question, and to read an answer. Then it is closed.
	connectionTimeout = 2 * time.Second
)

// Config is what a Server is made from.
type Config struct {
	Address string // HOST:PORT of both sockets; port 0: any free port
	Source  Source
	// Bound returns the listener with at most so many connections at a time.
	Bound   func(listener net.Listener, most int64) net.Listener
	Metrics prometheus.Registerer
}

// Server answers questions. After Open either Run is called once, or Close.
type Server struct {
	cache     *cache
	end       context.CancelFunc // ends the cache's life
	packets   net.PacketConn
	listener  net.Listener
	places    chan struct{}
	sources   *sources
	turns     atomic.Uint64
	questions *prometheus.CounterVec
}

// Open opens the sockets, and returns a server that does not answer yet.
func Open(config Config) (*Server, error) {
	listener, err := net.Listen("tcp", config.Address)
	if err != nil {
		return nil, err
	}
	packets, err := net.ListenPacket("udp", listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	life, end := context.WithCancel(context.Background())
	s := &Server{
		cache: newCache(life, config.Source), end: end, packets: packets, places: make(chan struct{}, answersMax), sources: newSources(),
		listener: config.Bound(listener, connectionsMax),
		questions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tender_dns_questions_total", Help: "Questions of DNS, by how they came and what was answered; dropped: nothing, as too many came at a time; truncated: to ask over TCP, as the source had many answers.",
		}, []string{"by", "answer"}),
	}
	config.Metrics.MustRegister(s.questions)
	return s, nil
}

// Address returns the address of both sockets.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close closes the sockets. It is called instead of Run.
func (s *Server) Close() error {
	s.end()
	return errors.Join(s.packets.Close(), s.listener.Close())
}

// Run answers questions until ctx ends. When it returns, all that it started has ended.
func (s *Server) Run(ctx context.Context) error {
	servers := []*dns.Server{s.server("udp"), s.server("tcp")}
	servers[0].PacketConn, servers[1].Listener = s.packets, s.listener
	var parts sync.WaitGroup
	failed := make(chan error, len(servers))
	for _, server := range servers {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		parts.Go(func() { failed <- server.ActivateAndServe() })
		select {
		case <-started: // a server that has not started can't be stopped
		case err := <-failed:
			failed <- err
		}
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.end()
	for _, server := range servers {
		_ = server.ShutdownContext(context.Background()) // it has ended, or ends now
	}
	parts.Wait()
	s.cache.reads.Wait()
	return err
}

func (s *Server) server(by string) *dns.Server {
	return &dns.Server{
		Net: by, UDPSize: questionBytesMax, MaxTCPQueries: questionsPerConnectionMax,
		ReadTimeout: connectionTimeout, WriteTimeout: connectionTimeout, IdleTimeout: func() time.Duration { return connectionTimeout },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, request *dns.Msg) { s.serve(w, request, by) }),
	}
}

// serve answers one message, if fewer than answersMax are being answered.
func (s *Server) serve(w dns.ResponseWriter, request *dns.Msg, by string) {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		s.questions.WithLabelValues(by, "dropped").Inc()
		if by == "udp" {
			return
		}
		refusal := new(dns.Msg)
		_ = w.WriteMsg(refusal.SetRcode(request, dns.RcodeServerFailure)) // else nobody waits for it
		return
	}
	s.turns.Add(1)
	if by == "udp" && !s.sources.hasLeft(w.RemoteAddr()) {
		s.questions.WithLabelValues(by, "truncated").Inc()
		reply := new(dns.Msg).SetReply(request)
		reply.Truncated = true
		_ = w.WriteMsg(reply) // else nobody waits for it
		return
	}
	ctx, cancel := context.WithTimeout(s.cache.life, readTimeout)
	defer cancel()
	reply := s.answer(ctx, request)
	fit(reply, request, by)
	if by == "udp" {
		s.sources.take(w.RemoteAddr(), reply.Len())
	}
	s.questions.WithLabelValues(by, strings.ToLower(dns.RcodeToString[reply.Rcode])).Inc()
	_ = w.WriteMsg(reply) // else nobody waits for it
}

// fit truncates an answer to the length that may be sent, and marks it as truncated.
func fit(reply, request *dns.Msg, by string) {
	size := dns.MinMsgSize
	if options := request.IsEdns0(); options != nil {
		if options.Version() != 0 {
			reply.Answer, reply.Ns, reply.Extra, reply.Rcode = nil, nil, nil, dns.RcodeBadVers
		}
		size = min(max(int(options.UDPSize()), dns.MinMsgSize), packetBytesMax)
		reply.SetEdns0(packetBytesMax, false)
	}
	if by == "tcp" {
		size = dns.MaxMsgSize
	}
	reply.Compress = true
	reply.Truncate(size)
}
