package raftlog

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/master/quorum"
)

// Every connection between masters begins with a greeting and its answer. So masters of two clusters never exchange a
// Raft message (R19), and masters that are not part of a quorum yet can ask each other who they are.

const (
	greetingMagic    = "TNDR1"
	greetingBytesMax = 64 << 10
	greetingTimeout  = 5 * time.Second
	// greetingsMax bounds the connections that have not greeted yet. When there is one more, the one that has been
	// silent for longest is closed, so that silent connections keep no master out.
	greetingsMax = 256
	// connectionsMax bounds all connections of masters that have greeted. One more is closed.
	connectionsMax = 1024
	// oldMax bounds the masters of older epochs whose refusal is logged.
	oldMax = 64
)

// refused is the reason, in its own words, why a master refuses our connection, for ever or for now.
type refused string

func (r refused) Error() string { return string(r) }

// greeting is the first message on a connection.
type greeting struct {
	For     string        `json:"for"` // "raft" or "ask"
	Cluster api.ClusterID `json:"cluster"`
	From    api.MasterID  `json:"from"`
	// Incarnation is that of the sender's folder.
	Incarnation string `json:"incarnation"`
	Version     string `json:"version,omitempty"`
	// Epoch is the newest epoch that the sender knows of.
	Epoch uint64 `json:"epoch,omitempty"`
	// Addr is the address under which others reach the sender.
	Addr string `json:"addr,omitempty"`
}

// network owns the listener and every connection between masters.
type network struct {
	config Config
	about  func() quorum.About
	left   func(api.MasterID) // called when a master's connection to our Raft was closed; must not wait
	// heard is called when a master of our cluster has asked, with the address that it says it has.
	heard func(Peer)
	hears func(raft.ServerID) bool // reports whether a master's messages count for our Raft
	moves moves
	ready chan tracked  // greeted connections for Raft
	over  chan struct{} // closed by close
	// newer is set when a master of a newer epoch has answered that does not count us as a member.
	newer atomic.Bool

	mu    sync.Mutex
	conns map[net.Conn]bool // guarded by mu
	// silent lists the connections among conns that have not greeted yet, the oldest first; guarded by mu.
	silent []net.Conn
	open   bool // Raft accepts connections; guarded by mu
	closed bool // guarded by mu
	// old says of which masters of older epochs the log has told that they were refused, and in which of our epochs.
	// Guarded by mu.
	old  map[api.MasterID]uint64
	busy sync.WaitGroup
}

func newNetwork(config Config, about func() quorum.About, left func(api.MasterID)) *network {
	return &network{
		config: config, about: about, left: left, ready: make(chan tracked), over: make(chan struct{}), conns: make(map[net.Conn]bool), old: make(map[api.MasterID]uint64),
		heard: func(Peer) {}, hears: func(raft.ServerID) bool { return true },
	}
}

// serve accepts connections until close is called.
func (n *network) serve() {
	defer n.busy.Done()
	for {
		conn, err := n.config.Listener.Accept()
		if err != nil {
			if n.isClosed() || errors.Is(err, net.ErrClosed) {
				return
			}
			// For example, there may be no file descriptors left. Other connections will end, so it continues.
			n.config.Logger.Warn().Err(err).Msg("the listener of Raft can't accept connections")
			time.Sleep(100 * time.Millisecond)
			continue
		}
		n.busy.Add(1)
		go func() {
			defer n.busy.Done()
			n.greeted(conn)
		}()
	}
}

func (n *network) start() {
	n.busy.Add(1)
	go n.serve()
}

// greeted answers a connection's greeting, and hands the connection to Raft or closes it.
func (n *network) greeted(conn net.Conn) {
	if !n.track(conn) {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(greetingTimeout))
	var hello greeting
	n.await(conn)
	err := readGreeting(conn, &hello)
	if !n.spoke(conn) {
		err = errors.New("too many connections")
	}
	if err != nil {
		n.drop(conn)
		return
	}
	answer := n.about()
	wanted := hello.For == "raft"
	if who := trust.PeerOf(conn); who.Kind != trust.Nobody && who.Name != string(hello.From) {
		answer.Refused = fmt.Sprintf("who calls itself %s has the certificate of %s", hello.From, who)
	} else if wanted {
		answer.Refused = n.refusal(hello, answer)
	}
	err = writeGreeting(conn, answer)
	if err != nil || !wanted || answer.Refused != "" {
		n.drop(conn)
		if err == nil && hello.For == "ask" && hello.Cluster != "" && hello.Cluster == answer.Cluster {
			n.heard(Peer{ID: hello.From, Addr: hello.Addr})
		}
		return
	}
	_ = conn.SetDeadline(time.Time{})
	timer := time.NewTimer(greetingTimeout)
	defer timer.Stop()
	select {
	case n.ready <- tracked{conn, n, serverID(hello.From, hello.Incarnation)}:
	case <-timer.C: // Raft has just ended; the other side dials again
		n.drop(conn)
	case <-n.over:
		n.drop(conn)
	}
}

// await counts a connection among those that have not greeted. When there are too many, it closes the oldest of them.
func (n *network) await(conn net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = append(n.silent, conn)
	if len(n.silent) > greetingsMax {
		_ = n.silent[0].Close() // its reader ends
		n.silent = slices.Delete(n.silent, 0, 1)
	}
}

// spoke notes that a connection has greeted; it returns false when too many connections have.
func (n *network) spoke(conn net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at := slices.Index(n.silent, conn); at >= 0 {
		n.silent = slices.Delete(n.silent, at, at+1)
	}
	return len(n.conns)-len(n.silent) <= connectionsMax
}

func (n *network) refusal(hello greeting, self quorum.About) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case self.Cluster == "" || !n.open:
		return fmt.Sprintf("master %s is not ready", self.ID)
	case hello.Cluster != self.Cluster:
		return fmt.Sprintf("wrong cluster: %s is of %s and master %s is of %s", hello.From, hello.Cluster, self.ID, self.Cluster)
	}
	if quorum.IsOfThePast(hello.From, hello.Incarnation, hello.Epoch, self) {
		if len(n.old) < oldMax && n.old[hello.From] != self.Epoch { // it will try again and again
			n.old[hello.From] = self.Epoch
			n.config.Logger.Warn().Str("master", string(hello.From)).Str("addr", hello.Addr).Uint64("epoch", hello.Epoch).Uint64("ours", self.Epoch).
				Msg("a master of an older epoch is refused: the cluster was recovered or restored without it")
		}
		return fmt.Sprintf("the cluster was recovered or restored without this folder of %s: master %s is of epoch %d and it is of epoch %d", hello.From, self.ID, self.Epoch, hello.Epoch)
	}
	if err := protocol.Neighbours(self.Version, hello.Version); err != nil {
		return fmt.Sprintf("master %s refuses %s: %v", self.ID, hello.From, err)
	}
	return ""
}

// ask learns which master listens at an address.
func (n *network) ask(addr string, timeout time.Duration) (quorum.About, error) {
	conn, answer, err := n.greet(addr, "ask", timeout)
	if err == nil {
		n.drop(conn)
	}
	return answer, err
}

// askMember asks a member of the quorum at its present address.
func (n *network) askMember(peer Peer, timeout time.Duration) (quorum.About, error) {
	return n.ask(n.moves.where(peer), timeout)
}

// takesPart reports whether a master's Raft accepts connections.
func (n *network) takesPart(m quorum.Member) bool {
	conn, err := n.join(m.Peer, m.Incarnation, greetingTimeout)
	if err == nil {
		n.drop(conn)
	}
	return err == nil
}

// join connects to a master's Raft. If another master answers at that address, the connection is closed: its vote would
// be counted as that of the master that was meant, and twice if it answers at its own address too. So is one to another
// folder of that master: it knows nothing of what the folder that was meant has promised. (Protocol rule R51.)
func (n *network) join(peer Peer, incarnation string, timeout time.Duration) (net.Conn, error) {
	conn, answer, err := n.greet(n.moves.where(peer), "raft", timeout)
	if err != nil {
		return nil, err
	}
	if answer.ID != peer.ID {
		n.drop(conn)
		return nil, fmt.Errorf("master %s answers at %s, which is %s's address", answer.ID, peer.Addr, peer.ID)
	}
	if answer.Incarnation != incarnation {
		n.drop(conn)
		n.warnOfFolder(peer, answer.Epoch)
		return nil, fmt.Errorf("master %s answers at %s with another folder than that of the member: stop it, and start it with its own folder, "+
			"or remove the member and add it anew with an empty one", peer.ID, peer.Addr)
	}
	return conn, nil
}

// warnOfFolder logs once in each of our epochs that a master answers with another folder than the member's.
func (n *network) warnOfFolder(peer Peer, epoch uint64) {
	self := n.about()
	n.mu.Lock()
	defer n.mu.Unlock()
	if was, told := n.old[peer.ID]; len(n.old) < oldMax && (!told || was != self.Epoch) {
		n.old[peer.ID] = self.Epoch
		n.config.Logger.Warn().Str("master", string(peer.ID)).Str("addr", peer.Addr).Uint64("epoch", epoch).Uint64("ours", self.Epoch).
			Msg("a master has another folder than that of the member: it is not talked to")
	}
}

func (n *network) greet(addr, purpose string, timeout time.Duration) (net.Conn, quorum.About, error) {
	if timeout <= 0 || timeout > greetingTimeout {
		timeout = greetingTimeout
	}
	self := n.about()
	conn, err := n.config.Dial(addr, timeout)
	if err != nil {
		return nil, quorum.About{}, err
	}
	if !n.track(conn) {
		return nil, quorum.About{}, net.ErrClosed
	}
	_ = conn.SetDeadline(time.Now().Add(timeout))
	var answer quorum.About
	err = writeGreeting(conn, greeting{For: purpose, Cluster: self.Cluster, From: self.ID, Incarnation: self.Incarnation, Version: self.Version, Epoch: self.Epoch, Addr: n.config.Advertise})
	if err == nil {
		err = readGreeting(conn, &answer)
	}
	if who := trust.PeerOf(conn); err == nil && who.Kind != trust.Nobody && who.Name != string(answer.ID) {
		err = fmt.Errorf("who answers at %s calls itself %s and has the certificate of %s", addr, answer.ID, who)
	}
	if err == nil && answer.Supersedes(self) {
		n.newer.Store(true)
	}
	if err == nil && answer.Refused != "" {
		err = refused(answer.Refused)
	}
	if err != nil {
		n.drop(conn)
		return nil, quorum.About{}, err
	}
	_ = conn.SetDeadline(time.Time{})
	return conn, answer, nil
}

func writeGreeting(w io.Writer, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if len(data) > greetingBytesMax {
		return errors.New("the greeting is too long")
	}
	message := binary.BigEndian.AppendUint32([]byte(greetingMagic), uint32(len(data)))
	_, err = w.Write(append(message, data...))
	return err
}

// readGreeting reads not a byte more than the greeting.
func readGreeting(r io.Reader, value any) error {
	var head [len(greetingMagic) + 4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[len(greetingMagic):])
	if string(head[:len(greetingMagic)]) != greetingMagic || size > greetingBytesMax {
		return errors.New("who listens there is no master of Tender")
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return err
	}
	return json.Unmarshal(data, value)
}

// track remembers a connection, so that close can end whoever waits on it.
func (n *network) track(conn net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		_ = conn.Close()
		return false
	}
	n.conns[conn] = true
	return true
}

func (n *network) drop(conn net.Conn) {
	n.mu.Lock()
	delete(n.conns, conn)
	n.mu.Unlock()
	_ = conn.Close()
}

func (n *network) isClosed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closed
}

// close closes the listener and every connection. It returns when all goroutines have ended.
func (n *network) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	close(n.over)
	_ = n.config.Listener.Close()
	n.dropAll()
	n.busy.Wait()
}

func (n *network) dropAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for conn := range n.conns {
		_ = conn.Close()
	}
	clear(n.conns)
}

// stream is the network as one life of Raft sees it.
type stream struct {
	network *network
	over    chan struct{}
	once    sync.Once

	mu     sync.Mutex
	dialed map[*dialed]struct{} // guarded by mu
}

func (n *network) stream() *stream {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open = true
	return &stream{network: n, over: make(chan struct{}), dialed: map[*dialed]struct{}{}}
}

// Accept returns the next connection that has greeted.
func (s *stream) Accept() (net.Conn, error) {
	select {
	case conn := <-s.network.ready:
		return conn, nil
	case <-s.over:
		return nil, net.ErrClosed
	}
}

// Dial connects to another master.
func (s *stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	select {
	case <-s.over: // if the stream has ended, its connections are lost, so it dials no new ones
		return nil, net.ErrClosed
	default:
	}
	purpose, peer, incarnation := meantPeer(address)
	conn, err := s.network.join(peer, incarnation, timeout)
	if err != nil {
		return nil, err
	}
	ours := &dialed{tracked: tracked{conn, s.network, ""}, stream: s, to: peer.ID, purpose: purpose, at: time.Now()}
	s.keep(ours)
	return ours, nil
}

// Close ends the stream and closes all its connections, but not the listener.
func (s *stream) Close() error {
	s.once.Do(func() {
		s.network.mu.Lock()
		s.network.open = false
		s.network.mu.Unlock()
		close(s.over)
		s.network.dropAll()
	})
	return nil
}

// Addr returns the address under which others know us.
func (s *stream) Addr() net.Addr { return address(s.network.config.Advertise) }

// tracked is a connection that the network forgets when it is closed.
type tracked struct {
	net.Conn
	network *network
	from    raft.ServerID // the master that opened it, and its folder; "": we did
}

// Read closes the connection of a master whose messages do not count (any more), before our Raft gets them. The master
// that opened the connection is known by its certificate.
func (t tracked) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if err == nil && t.from != "" && !t.network.hears(t.from) {
		t.network.drop(t.Conn)
		return 0, net.ErrClosed
	}
	return n, err
}

func (t tracked) Close() error {
	t.network.drop(t.Conn)
	if t.from != "" {
		t.network.left(idOf(t.from))
	}
	return nil
}

// dialed is a connection that we opened to another master's Raft. Its errors say whether it is lost.
type dialed struct {
	tracked
	stream  *stream
	to      api.MasterID
	purpose raft.ServerAddress // "": any purpose
	at      time.Time
	used    bool // an exchange has begun on it; only one at a time uses it
}

// SetDeadline begins an exchange: the library calls it before each.
func (d *dialed) SetDeadline(at time.Time) error {
	if d.purpose == anew && d.used {
		d.network.drop(d.Conn)
		return net.ErrClosed
	}
	d.used = true
	return d.Conn.SetDeadline(at)
}

// Close closes the connection.
func (d *dialed) Close() error {
	d.stream.forget(d)
	return d.tracked.Close()
}

// lost is the error of a connection that was closed or broke. One that only takes too long is not lost.
type lost struct{ error }

func (l lost) Unwrap() error { return l.error }

func (d *dialed) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	return n, orLost(err)
}

func (d *dialed) Write(p []byte) (int, error) {
	n, err := d.Conn.Write(p)
	return n, orLost(err)
}

func orLost(err error) error {
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return lost{err}
}

type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }
