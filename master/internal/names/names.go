// Package names answers DNS questions about where tasks are reached that have ports and are ready.
//
//	NAME.FRAMEWORK.tender.               A and AAAA: their agents' addresses; SRV: all their ports
//	_PORT._tcp.NAME.FRAMEWORK.tender.    SRV: the port of that name
//	FRAMEWORK.tender.                    the same of all tasks of the framework
//	AGENT.agents.tender.                 A or AAAA: the agent, which is what SRV names
//
// It owns two sockets, of UDP and of TCP, and a short-lived copy of what it has read from the master. It knows no other
// domain, asks no other server, and changes nothing. It checks nobody's identity: everybody who reaches it gets the
// same answers.
//
// The cost of a packet is bounded: so many are answered at a time and the others dropped; the leader is asked for a
// framework's tasks once in five seconds at most, and not at all for a name that no framework has. In a
// flood the kernel drops what its queue has no room for, so a question right behind one may be lost: resolvers ask again.
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
	// answersMax is how many questions are looked up at a time. One more over UDP is dropped, and over TCP refused by
	// SERVFAIL: resolvers come again, or go to another master.
	answersMax = 256
	// packetBytesMax is what an answer over UDP may have, however much more is allowed: what is larger is cut into pieces
	// on its way and lost. Whoever wants more comes by TCP.
	packetBytesMax = 1232
	// questionBytesMax is what a question over UDP may have. More: it is read as if it ended there, and so is ill.
	questionBytesMax = 512
	// connectionsMax bounds the connections over TCP. One more is closed at once.
	connectionsMax = 128
	// questionsPerConnectionMax is after how many questions a connection ends.
	questionsPerConnectionMax = 128
	// connectionTimeout bounds the wait for a question, and for who reads an answer.
	connectionTimeout = 2 * time.Second
)

// Config is what an answerer is made from.
type Config struct {
	Address string // HOST:PORT, of both sockets; port 0 is any free one
	Source  Source
	// Bound bounds the connections of a listener.
	Bound   func(listener net.Listener, most int64) net.Listener
	Metrics prometheus.Registerer
}

// Server answers. Open, then Run once; or Close.
type Server struct {
	cache     *cache
	end       context.CancelFunc // of the cache
	packets   net.PacketConn
	listener  net.Listener
	places    chan struct{}
	turns     atomic.Uint64
	questions *prometheus.CounterVec
}

// Open opens the sockets.
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
		cache: newCache(life, config.Source), end: end, packets: packets, places: make(chan struct{}, answersMax),
		listener: config.Bound(listener, connectionsMax),
		questions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tender_dns_questions_total", Help: "Questions of DNS, by how they came and what was answered; dropped: nothing, as too many came at a time.",
		}, []string{"by", "answer"}),
	}
	config.Metrics.MustRegister(s.questions)
	return s, nil
}

// Address is where both sockets are.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close closes the sockets, when Run is not called.
func (s *Server) Close() error {
	s.end()
	return errors.Join(s.packets.Close(), s.listener.Close())
}

// Run answers until ctx ends. All it started has ended when it returns.
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
		case <-started: // one that has not can't be stopped
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

// serve answers one message, if there is a place.
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
	ctx, cancel := context.WithTimeout(s.cache.life, readTimeout)
	defer cancel()
	reply := s.answer(ctx, request)
	fit(reply, request, by)
	s.questions.WithLabelValues(by, strings.ToLower(dns.RcodeToString[reply.Rcode])).Inc()
	_ = w.WriteMsg(reply) // else nobody waits for it
}

// fit cuts an answer to what may be sent, and says so in it.
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
