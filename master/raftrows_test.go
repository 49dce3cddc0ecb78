package master_test

import (
	"cmp"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
)

// nextTerm is one that would end the leader's, if a master that is no member were given a vote.
const nextTerm = 1000

// messages are all messages of Raft, as a master sends them that is not, or no longer, in the quorum. They name a later
// term, which would be believed if a member named it.
var messages = map[string]func(from comer, to *raft.NetworkTransport) error{
	"AppendEntries": func(from comer, to *raft.NetworkTransport) error {
		request := &raft.AppendEntriesRequest{RPCHeader: from.header(), Term: max(nextTerm, from.term)}
		return to.AppendEntries("m1", "host1:5070", request, &raft.AppendEntriesResponse{})
	},
	"InstallSnapshot": func(from comer, to *raft.NetworkTransport) error {
		request := &raft.InstallSnapshotRequest{RPCHeader: from.header(), Term: max(nextTerm, from.term)}
		return to.InstallSnapshot("m1", "host1:5070", request, &raft.InstallSnapshotResponse{}, strings.NewReader(""))
	},
	"RequestPreVote": func(from comer, to *raft.NetworkTransport) error {
		var answer raft.RequestPreVoteResponse
		err := to.RequestPreVote("m1", "host1:5070", &raft.RequestPreVoteRequest{RPCHeader: from.header(), Term: nextTerm, LastLogIndex: nextTerm}, &answer)
		return errors.Join(err, ifGranted(answer.Granted))
	},
	"RequestVote": func(from comer, to *raft.NetworkTransport) error {
		var answer raft.RequestVoteResponse
		request := &raft.RequestVoteRequest{RPCHeader: from.header(), Term: nextTerm, LastLogIndex: nextTerm, LeadershipTransfer: true}
		err := to.RequestVote("m1", "host1:5070", request, &answer)
		return errors.Join(err, ifGranted(answer.Granted))
	},
	"TimeoutNow": func(from comer, to *raft.NetworkTransport) error {
		return to.TimeoutNow("m1", "host1:5070", &raft.TimeoutNowRequest{RPCHeader: from.header()}, &raft.TimeoutNowResponse{})
	},
}

// master is the name of a master by which it speaks.
func (c comer) master() string { return cmp.Or(c.name, "m2") }

func (c comer) header() raft.RPCHeader {
	address := "host" + strings.TrimPrefix(c.master(), "m") + ":5070"
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(c.master()), Addr: []byte(address)}
}

func ifGranted(vote bool) error {
	if vote {
		return errors.New("it was given a vote")
	}
	return nil
}

// TestTheTableIsWhatRaftIsTold says each message of Raft, and asks as masters ask each other, as everybody. Who may not speak to
// Raft is refused at the door; and a master that is not in the quorum, or was removed from it, is heard no further, as there is a
// leader, which leads on in its term.
func TestTheTableIsWhatRaftIsTold(t *testing.T) {
	behindDoors(t, func(a *abroad, leader *running, comers map[string]comer) {
		t := a.t
		before, leads := leader.Leading()
		if !leads {
			t.Fatal("m1 does not lead")
		}
		for who, comer := range comers {
			cluster := string(leader.Cluster())
			_, err := spoken(t, comer.dial, greeting{For: "ask", Cluster: cluster, From: comer.master(), Version: "test"})
			a.asTheTableSays("raft Ask", who, comer, err)
			for message, say := range messages {
				layer := &layer{t: t, comer: comer, cluster: cluster, over: make(chan struct{})}
				to := raft.NewNetworkTransport(layer, 1, time.Second, io.Discard)
				door, err := spoken(t, comer.dial, greeting{For: "raft", Cluster: cluster, From: comer.master(), Version: "test"})
				a.asTheTableSays("raft "+message, who, comer, err)
				if err == nil {
					_ = door.Close()
				}
				if say(comer, to) == nil {
					t.Errorf("%s by %s, which is not in the quorum, is answered", message, who)
				}
				if err := errors.Join(to.Close(), layer.Close()); err != nil {
					t.Error(err)
				}
			}
		}
		if after, leads := leader.Leading(); !leads || after != before {
			t.Errorf("the leader of term %v leads %v in term %v", before, leads, after)
		}
		for why, hello := range map[string]greeting{
			"its certificate is m2's":  {For: "raft", Cluster: string(leader.Cluster()), From: "m1", Version: "test"},
			"it is of another cluster": {For: "raft", Cluster: "theirs", From: "m2", Version: "test"},
		} {
			if _, err := spoken(t, comers["a master"].dial, hello); err == nil {
				t.Errorf("it may speak, and %s", why)
			}
		}
	})
}

// TestEachMessageOfRaftHasARow goes by the interfaces that the library speaks through.
func TestEachMessageOfRaftHasARow(t *testing.T) {
	other := map[string]bool{ // what says nothing to another master, or says what another one says
		"AppendEntriesPipeline": true, "Consumer": true, "DecodePeer": true, "EncodePeer": true, "LocalAddr": true, "SetHeartbeatHandler": true,
	}
	for _, transport := range []reflect.Type{reflect.TypeFor[raft.Transport](), reflect.TypeFor[raft.WithPreVote]()} {
		for i := range transport.NumMethod() {
			message := transport.Method(i).Name
			if _, has := rights.RowOf("raft " + message); has == other[message] || other[message] == (messages[message] != nil) {
				t.Errorf("%s: a row %v, tried %v", message, has, messages[message] != nil)
			}
		}
	}
}

// asTheTableSays compares what came of a message with its row.
func (a *abroad) asTheTableSays(call, who string, comer comer, err error) {
	a.t.Helper()
	row, has := rights.RowOf(call)
	if !has {
		a.t.Fatalf("%s has no row", call)
	}
	_, denied := rights.Decide(row, rights.Caller{Kind: rights.Kind(comer.as.String()), Name: comer.master()})
	if (err == nil) != (denied == nil) {
		a.t.Errorf("%s by %s: %v; the table says %v", call, who, err, denied)
	}
}

// greeting is what opens a connection between masters, in a frame of its own.
type greeting struct {
	For     string `json:"for"`
	Cluster string `json:"cluster"`
	From    string `json:"from"`
	Version string `json:"version"`
}

// spoken connects and greets, for a caller that was answered that it may continue.
func spoken(t *testing.T, dial trust.Dial, hello greeting) (net.Conn, error) {
	t.Helper()
	conn, err := dial(t.Context(), "host1:5070")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	if secured, is := conn.(*tls.Conn); is {
		if err := secured.HandshakeContext(t.Context()); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(hello)
	if err != nil {
		return nil, err
	}
	const magic = "TNDR1"
	head := binary.BigEndian.AppendUint32([]byte(magic), uint32(len(text)))
	if _, err := conn.Write(append(head, text...)); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint32(head[len(magic):]))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, err
	}
	var about struct{ Refused string }
	if err := json.Unmarshal(answer, &about); err != nil {
		return nil, err
	}
	if about.Refused != "" {
		return nil, errors.New(about.Refused)
	}
	return conn, nil
}

// layer lets the library speak as somebody.
type layer struct {
	t       *testing.T
	comer   comer
	cluster string
	over    chan struct{}
}

func (l *layer) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	return spoken(l.t, l.comer.dial, greeting{For: "raft", Cluster: l.cluster, From: l.comer.master(), Version: "test"})
}

func (l *layer) Accept() (net.Conn, error) {
	<-l.over
	return nil, net.ErrClosed
}

func (l *layer) Close() error {
	select {
	case <-l.over:
	default:
		close(l.over)
	}
	return nil
}

func (l *layer) Addr() net.Addr { return &net.TCPAddr{} }
