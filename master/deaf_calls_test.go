package master

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
)

// deaf is a peer that speaks HTTP/2 itself, as no library of ours reads so little: its windows have room for no byte of an
// answer. What it is told beside answers it hears.
type deaf struct {
	framer *http2.Framer
	heads  bytes.Buffer
	fields *hpack.Encoder
	next   uint32
	told   chan string // of each call: "" when its answer begins, else its error
	ended  chan error  // of the connection
}

func deafPeer(t *testing.T, conn net.Conn) *deaf {
	t.Helper()
	d := &deaf{framer: http2.NewFramer(conn, conn), next: 1, told: make(chan string, 1024), ended: make(chan error, 1)}
	d.fields = hpack.NewEncoder(&d.heads)
	d.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	if err := d.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	for settled := false; !settled; { // before anything is asked: an answer must find no window
		frame, err := d.framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if settings, is := frame.(*http2.SettingsFrame); is {
			settled = settings.IsAck()
		}
	}
	go func() { d.ended <- d.hear() }()
	return d
}

// hear reads all but answers, of which nothing comes.
func (d *deaf) hear() error {
	for {
		frame, err := d.framer.ReadFrame()
		if err != nil {
			return err
		}
		if head, is := frame.(*http2.MetaHeadersFrame); is {
			status := ""
			for _, field := range head.RegularFields() {
				if field.Name == "grpc-status" {
					status = field.Value
				}
			}
			d.told <- status
		}
	}
}

// call makes a call with one answer.
func (d *deaf) call(t *testing.T, method string, request proto.Message) {
	t.Helper()
	d.heads.Reset()
	for _, field := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method}, {Name: ":authority", Value: "master"},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	} {
		if err := d.fields.WriteField(field); err != nil {
			t.Fatal(err)
		}
	}
	body, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	err = d.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: d.next, BlockFragment: d.heads.Bytes(), EndHeaders: true})
	if err == nil {
		err = d.framer.WriteData(d.next, true, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...))
	}
	if err != nil {
		t.Fatal(err)
	}
	d.next += 2
}

// onSockets is a master that leads, on real sockets.
func onSockets(t *testing.T) (m *Master, end func()) {
	t.Helper()
	m, err := New(Config{ID: "m1", DataDir: t.TempDir(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Raft: "127.0.0.1:0", Profile: "fast",
		Trust: Trust{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	UntilLeads(t, m)
	return m, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestDeafCallersHoldFewAnswers (R34): many calls on one connection that reads no answer hold one large answer
// together. The others are refused, and told when to retry. A caller that reads is answered meanwhile.
func TestDeafCallersHoldFewAnswers(t *testing.T) {
	m, end := onSockets(t)
	defer end()
	honest, err := grpc.NewClient(m.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer honest.Close()
	session := storeOf(t, honest)
	const size, calls = 900 << 10, streamsPerConnMax
	store := apiv1.NewStoreServiceClient(honest)
	if _, err := WriteStore(t.Context(), store, session, &apiv1.StoreWrite{Key: "k", Value: make([]byte, size), Write: 1}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", m.GRPCAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	d := deafPeer(t, conn)
	before := inUse()
	for range calls {
		d.call(t, apiv1.StoreService_List_FullMethodName, &apiv1.StoreListRequest{Session: session})
	}
	begun, refused := 0, 0
	for range calls {
		select {
		case status := <-d.told:
			switch status {
			case "":
				begun++
			case fmt.Sprint(uint32(codes.ResourceExhausted)):
				refused++
			default:
				t.Errorf("a call ends with %s", status)
			}
		case err := <-d.ended:
			t.Fatalf("the connection ends after %d answers: %v", begun, err)
		}
	}
	if held := inUse() - before; begun != 1 || held > 4*size {
		t.Errorf("of %d calls %d are answered and %d refused; the answers hold %d KiB", calls, begun, refused, held>>10)
	}
	if unread := m.intake.Peers.Unread.Bytes.Load(); unread < size || unread > 2*size {
		t.Errorf("%d bytes are counted as unread", unread)
	}
	if answer, err := store.List(t.Context(), &apiv1.StoreListRequest{Session: session}); err != nil || len(answer.GetItems()) != 1 {
		t.Errorf("who reads is answered with %d items, %v", len(answer.GetItems()), err)
	}
}

// TestDeafCallersOfHTTP (R34): an HTTP connection has one answer at a time, so the bound is that of its address. Of
// many connections that read nothing the excess is refused, and one that does not read for long is closed.
func TestDeafCallersOfHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, network, end := aloneAt(t, "host:5050")
		writer := peerOf(t, network, "writer")
		for i := range 12 {
			subscribed(t, writer, fmt.Sprint("i", i), map[string]string{"label": strings.Repeat("l", 60<<10)})
		}
		const crowd = 24
		conns, first := make([]net.Conn, crowd), make(chan string, crowd)
		for i := range conns {
			conn, err := network.From("crowd").Dial(t.Context(), "host:5050")
			if err != nil {
				t.Fatal(err)
			}
			conns[i] = conn
			if _, err := conn.Write([]byte("GET /v1/ListFrameworks HTTP/1.1\r\nHost: host\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			go func() {
				line := make([]byte, len("HTTP/1.1 200"))
				_, _ = io.ReadFull(conn, line) // no line is none
				first <- string(line[len("HTTP/1.1 "):])
			}()
		}
		count := map[string]int{}
		for range crowd {
			count[<-first]++
		}
		unread := m.intake.Peers.Unread.Bytes.Load()
		if count["200"] == 0 || count["429"] == 0 || count["200"]+count["429"] != crowd || unread > 8<<20 {
			t.Errorf("%d connections are answered %v and have not read %d KiB", crowd, count, unread>>10)
		}
		pause.For(t.Context(), time.Minute)
		synctest.Wait()
		if unread, closed := m.intake.Peers.Unread.Bytes.Load(), m.intake.Peers.Unread.Closed.Load(); unread != 0 || closed == 0 {
			t.Errorf("a minute later %d bytes are not read, and %d connections were closed", unread, closed)
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
		_ = writer.Close()
		end()
	})
}

// TestHeadersAreBounded (R34): a call with very long headers is refused, as they are kept while it waits to be read.
func TestHeadersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, network, end := aloneAt(t, "none")
		defer end()
		conn := peerOf(t, network, "writer")
		defer conn.Close()
		for bytes, refused := range map[int]bool{headerBytesMax / 2: false, headerBytesMax: true} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "long", strings.Repeat("x", bytes))
			if _, err := apiv1.NewMasterServiceClient(conn).Leader(ctx, &apiv1.LeaderRequest{}); (err != nil) != refused {
				t.Errorf("a call with %d bytes of headers: %v", bytes, err)
			}
		}
	})
}
