package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tenderhq/tender/internal/direct"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/testing/freeports"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// bare is three processes that do what the log, the disk, TLS and gRPC have to do for a cluster, and nothing else. What is
// measured beside them can't be faster.
type bare struct {
	dir     string
	proof   *proof
	serving []string // where they serve gRPC
	nodes   []*exec.Cmd
}

// What a bare process serves: streams of messages that each hold records of one size.
const (
	bareWrites = "/bare/writes" // each record is committed by the library of the masters' log, and comes back
	bareLives  = "/bare/lives"  // each record goes to the third process, is answered there by two, and acknowledged
	bareSpawns = "/bare/spawns" // the same, and it is answered when a process in walls has begun, and has ended

	bareBytes   = 2 * commitValueBytes // of a record: a command contains names besides the value
	bareWaiting = 8192                 // records that may wait to be sent
)

// The first byte of a record of bareLives says what it is.
const (
	bareTask = iota
	bareRunning
	bareFinished
	bareAck
)

func startBare(parent string) (b *bare, err error) {
	b = &bare{}
	b.dir, err = os.MkdirTemp(parent, "bare-")
	proof, unproven := newProof()
	ports, full := freeports.Reserve(6)
	if err = errors.Join(err, unproven, full); err != nil {
		return b, err
	}
	b.proof = proof
	if err = errors.Join(trust.WriteKey(b.dir, proof.key), os.Chmod(b.dir, 0o711)); err != nil { // the users of tasks pass through it
		return b, err
	}
	all := make([]string, len(ports))
	for i, port := range ports {
		all[i] = fmt.Sprint("127.0.0.1:", port)
	}
	b.serving = all[:3]
	self, err := os.Executable()
	for i := 0; i < 3 && err == nil; i++ {
		node := exec.Command(self, "-only", fmt.Sprint("bare/", i), "-key", b.dir, "-masters", strings.Join(all, ","))
		node.Stderr, node.SysProcAttr = os.Stderr, ofOurs()
		b.nodes, err = append(b.nodes, node), node.Start()
	}
	return b, err
}

func (b *bare) stop() error {
	for _, node := range b.nodes {
		if node.Process != nil {
			_ = node.Process.Kill() // it has nothing to clean up
			_ = node.Wait()         // killed
		}
	}
	return os.RemoveAll(b.dir)
}

// bareMain is the main function of such a process.
func bareMain(ctx context.Context, o options) error {
	authority, err := o.authority()
	if err != nil {
		return err
	}
	pass, err := authority.Issue(trust.Identity{Kind: trust.Master, Name: "bare"}, time.Now())
	if err != nil {
		return err
	}
	_, which, _ := strings.Cut(o.only, "/")
	self, err := strconv.Atoi(which)
	if err != nil {
		return err
	}
	n := bareNode{self: self, dir: o.key, addresses: strings.Split(o.masters, ","), holder: trust.NewHolder(pass)}
	if n.log, err = n.startRaft(); err != nil {
		return err
	}
	listener, err := transport.ListenTCP(n.addresses[n.self])
	if err != nil {
		return err
	}
	sessions := direct.NewServer(bareSessionBytes, keepBare)
	server := grpc.NewServer(grpc.Creds(sessions.Credentials(transport.ServerCredentials(n.holder, trust.Door{}))), grpc.ReadBufferSize(0),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error { return n.serve(stream) }))
	defer context.AfterFunc(ctx, func() { server.Stop(); sessions.Close() })()
	return server.Serve(listener)
}

type bareNode struct {
	self      int
	dir       string
	addresses []string // of all three for gRPC, then for Raft
	holder    *trust.Holder
	log       *raft.Raft
}

// bareRaft connects the nodes as masters are connected: by TLS.
type bareRaft struct {
	net.Listener
	dial trust.Dial
}

func (l bareRaft) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return l.dial(ctx, string(address))
}

func (n *bareNode) startRaft() (*raft.Raft, error) {
	var founders raft.Configuration
	for _, address := range n.addresses[3:] {
		founders.Servers = append(founders.Servers, raft.Server{ID: raft.ServerID(address), Address: raft.ServerAddress(address)})
	}
	// With the options that the masters use.
	store, err := raftboltdb.New(raftboltdb.Options{
		Path:                    filepath.Join(n.dir, fmt.Sprint("n", n.self, ".db")),
		BoltOptions:             &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType},
		MsgpackUseNewTimeFormat: true,
	})
	if err != nil {
		return nil, err
	}
	listener, err := transport.ListenTCP(n.addresses[3+n.self])
	if err != nil {
		return nil, err
	}
	peers := raft.NewNetworkTransport(bareRaft{n.holder.Listener(listener, trust.Door{}), n.holder.Dialer(transport.DialTCP, trust.Master)}, 3, 10*time.Second, io.Discard)
	config := raft.DefaultConfig()
	config.LocalID, config.LogOutput, config.BatchApplyCh = founders.Servers[n.self].ID, io.Discard, true
	snapshots := raft.NewInmemSnapshotStore()
	if err := raft.BootstrapCluster(config, store, store, snapshots, peers, founders); err != nil {
		return nil, err
	}
	return raft.NewRaft(config, nothing{}, store, store, snapshots, peers)
}

// nothing is a state machine without state.
type nothing struct{}

func (nothing) Apply(*raft.Log) any                 { return nil }
func (nothing) Snapshot() (raft.FSMSnapshot, error) { return nothing{}, nil }
func (nothing) Restore(r io.ReadCloser) error       { return r.Close() }
func (nothing) Persist(s raft.SnapshotSink) error   { return s.Close() }
func (nothing) Release()                            {}

func (n *bareNode) serve(stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	switch {
	case (method == bareLives || method == bareSpawns) && n.self < 2:
		return n.relay(stream, method)
	case method == bareSpawns:
		return n.spawn(stream)
	case method == bareWrites:
		if err := n.log.VerifyLeader().Error(); err != nil {
			return err
		}
	}
	out := make(chan []byte, bareWaiting)
	go func() { _ = sendBare(stream, out, nil) }() // the client sees it, too
	over := make(chan error, 1)
	end := func(err error) {
		select {
		case over <- err:
		default: // it ends already
		}
	}
	go func() {
		end(receiveBare(stream, func(record []byte) error {
			switch {
			case method == bareWrites:
				future := n.log.Apply(record, 0)
				go func() {
					if err := future.Error(); err != nil {
						end(err)
						return
					}
					out <- record
				}()
			case record[0] == bareTask:
				out <- bareRecord(bareRunning)
				out <- bareRecord(bareFinished)
			}
			return nil
		}))
	}()
	return <-over
}

// spawn runs a task for each record, one after the other. An acknowledgement is the last.
func (n *bareNode) spawn(stream grpc.ServerStream) error {
	place, err := openWalls(n.dir)
	if err != nil {
		return err
	}
	worker, err := place.worker(0, 1)
	if err != nil {
		return errors.Join(err, place.close())
	}
	return receiveBare(stream, func(record []byte) error {
		if record[0] == bareAck {
			return errors.Join(worker.close(), place.close(), stream.SendMsg(wrapperspb.Bytes(record)))
		}
		var unsent error
		err := worker.run(func() { unsent = stream.SendMsg(wrapperspb.Bytes(bareRecord(bareRunning))) })
		return errors.Join(err, unsent, stream.SendMsg(wrapperspb.Bytes(bareRecord(bareFinished))))
	})
}

// relay stands between a stream and the next process, as masters and agents do. The second process writes what it passes
// on to its disk before, as agents do.
func (n *bareNode) relay(up grpc.ServerStream, method string) (err error) {
	var checkpoint *os.File
	if n.self == 1 {
		if checkpoint, err = os.OpenFile(filepath.Join(n.dir, "checkpoint"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return err
		}
		defer checkpoint.Close()
	}
	both, ctx := errgroup.WithContext(up.Context())
	down, err := openBare(ctx, n.addresses[n.self+1], n.holder.Dialer(transport.DialTCP, trust.Master), method)
	if err != nil {
		return err
	}
	for _, way := range []struct{ from, to bareStream }{{up, down}, {down, up}} {
		waiting := make(chan []byte, bareWaiting)
		both.Go(func() error { return sendBare(way.to, waiting, checkpoint) })
		both.Go(func() error {
			defer close(waiting)
			return receiveBare(way.from, func(record []byte) error { waiting <- record; return nil })
		})
	}
	return both.Wait()
}

// bareStream is either end of a stream.
type bareStream interface {
	SendMsg(message any) error
	RecvMsg(message any) error
}

// openBare opens a stream over a connection of its own, which ends with the context.
func openBare(ctx context.Context, address string, dial trust.Dial, method string) (grpc.ClientStream, error) {
	connection, err := transport.Connect(address, dial, grpc.WithReadBufferSize(0))
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { connection.Close() }) //nolint:errcheck // all of it is over
	return connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, grpc.WaitForReady(true))
}

func bareRecord(what byte) []byte {
	record := make([]byte, bareBytes)
	record[0] = what
	return record
}

// receiveBare hands on each record that comes until the stream ends.
func receiveBare(stream bareStream, take func(record []byte) error) error {
	for {
		message := new(wrapperspb.BytesValue)
		if err := stream.RecvMsg(message); err != nil {
			return err
		}
		for record := range slices.Chunk(message.GetValue(), bareBytes) {
			if err := take(record); err != nil {
				return err
			}
		}
	}
}

// sendBare sends what waits, together, after it was written to a file if there is one.
func sendBare(stream bareStream, waiting <-chan []byte, file *os.File) (err error) {
	for records := range waiting {
		for range min(len(waiting), bareWaiting/8) {
			records = append(records, <-waiting...)
		}
		if file != nil {
			_, err = file.Write(records)
			err = errors.Join(err, file.Sync())
		}
		if err = errors.Join(err, stream.SendMsg(wrapperspb.Bytes(records))); err != nil {
			return err
		}
	}
	return nil
}

var errBareOver = errors.New("all lives are over")

// lives runs so many lives, at most a window of them at once. It returns lives per second, and the µs of CPU of each.
func (b *bare) lives(ctx context.Context, total, window int) (rate, cpu float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := openBare(ctx, b.serving[0], b.proof.dialer(), bareLives)
	if err != nil {
		return 0, 0, err
	}
	before, began := cpuOf(os.Getpid()), time.Now()
	out := make(chan []byte, 4*window)             // as much as can be under way
	go func() { _ = sendBare(stream, out, nil) }() // the error comes below, too
	for range window {
		out <- bareRecord(bareTask)
	}
	launched, done := window, 0
	err = receiveBare(stream, func(state []byte) error {
		out <- bareRecord(bareAck)
		if state[0] == bareRunning {
			return nil
		}
		if launched < total {
			launched++
			out <- bareRecord(bareTask)
		}
		if done++; done == total {
			return errBareOver
		}
		return nil
	})
	if !errors.Is(err, errBareOver) {
		return 0, 0, err
	}
	return float64(total) / time.Since(began).Seconds(), (cpuOf(os.Getpid()) - before) * 1e6 / float64(total), nil
}

// singles asks for an answer and then for a process, so many times one after the other, and returns how long it takes
// each time until that process has begun.
func (b *bare) singles(ctx context.Context, total int) (times []time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	offers, err := openBare(ctx, b.serving[2], b.proof.dialer(), bareLives)
	if err != nil {
		return nil, err
	}
	tasks, err := openBare(ctx, b.serving[0], b.proof.dialer(), bareSpawns)
	if err != nil {
		return nil, err
	}
	asks, runs := &bareAsker{stream: offers}, &bareAsker{stream: tasks}
	for range total {
		began := time.Now()
		if err := errors.Join(asks.ask(bareTask), asks.await(2), runs.ask(bareTask), runs.await(1)); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
		if err := runs.await(1); err != nil {
			return nil, err
		}
	}
	return times, errors.Join(runs.ask(bareAck), runs.await(1)) // the control groups are gone
}

// bareAsker asks over a stream, and waits for the answers.
type bareAsker struct {
	stream grpc.ClientStream
	came   int // answers that nobody has waited for
}

func (a *bareAsker) ask(what byte) error { return a.stream.SendMsg(wrapperspb.Bytes(bareRecord(what))) }

func (a *bareAsker) await(answers int) error {
	for a.came < answers {
		message := new(wrapperspb.BytesValue)
		if err := a.stream.RecvMsg(message); err != nil {
			return err
		}
		a.came += len(message.GetValue()) / bareBytes
	}
	a.came -= answers
	return nil
}

// bareSessionBytes bounds the messages of a session.
const bareSessionBytes = 1 << 20

// keepBare keeps the records that come on a session, until that ends.
func keepBare(session grpc.ServerStream) error {
	var kept [][]byte
	return receiveBare(session, func(record []byte) error {
		kept = append(kept, bytes.Clone(record))
		return nil
	})
}

// hold opens so many sessions, each with a connection and a certificate of its own, as agents have them, and sends a
// record for each of its tasks. It returns how many MB the process takes that serves them.
func (b *bare) hold(ctx context.Context, sessions, tasks int) (float64, error) {
	authority, err := b.proof.key.Authority()
	if err != nil {
		return 0, err
	}
	for pause.For(ctx, 10*time.Millisecond) { // until it serves
		if conn, err := transport.DialTCP(ctx, b.serving[0]); err == nil {
			_ = conn.Close() // nothing was sent
			break
		}
	}
	var open errgroup.Group
	open.SetLimit(16)
	for i := range sessions {
		open.Go(func() error {
			pass, err := authority.Issue(trust.Identity{Kind: trust.Agent, Name: fmt.Sprint("nonce-", i)}, time.Now())
			if err != nil {
				return err
			}
			dial := trust.NewHolder(pass).Dialer(transport.DialTCP, trust.Master)
			session, err := direct.Open[wrapperspb.BytesValue, wrapperspb.BytesValue](ctx, dial, b.serving[0], bareSessionBytes)
			if err != nil {
				return err
			}
			return session.Send(wrapperspb.Bytes(bytes.Repeat(bareRecord(bareTask), tasks)))
		})
	}
	err = open.Wait()
	pause.For(ctx, lookTime)
	return residentMB(b.nodes[0].Process.Pid), err
}

// writer returns a function that has a record committed, over one stream to the process that leads. At one time a key may
// be written once.
func (b *bare) writer(ctx context.Context) (func(key string) error, error) {
	for end := time.Now().Add(electionMax); time.Now().Before(end); pause.For(ctx, 10*time.Millisecond) {
		for _, address := range b.serving {
			stream, err := openBare(ctx, address, b.proof.dialer(), bareWrites)
			if err != nil {
				return nil, err
			}
			if write := writesOver(stream); write("first") == nil {
				return write, nil
			}
		}
	}
	return nil, errors.New("no bare process leads")
}

func writesOver(stream grpc.ClientStream) func(key string) error {
	var waits sync.Map // of channels, by records
	out, over := make(chan []byte, bareWaiting), make(chan error)
	go func() { _ = sendBare(stream, out, nil) }() // the error comes below, too
	go func() {
		err := receiveBare(stream, func(record []byte) error {
			wait, _ := waits.LoadAndDelete(string(record))
			close(wait.(chan struct{}))
			return nil
		})
		for { // for whoever writes
			over <- err
		}
	}()
	return func(key string) error {
		record, done := make([]byte, bareBytes), make(chan struct{})
		copy(record, key)
		waits.Store(string(record), done)
		out <- record
		select {
		case <-done:
			return nil
		case err := <-over:
			return err
		}
	}
}
