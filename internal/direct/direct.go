// Package direct carries one stream on a connection of its own, without HTTP/2: messages one after the other, each
// behind its length. Both ends look like those of a stream of gRPC, so handlers, interceptors and the generated types
// are the same. The streams of agents, of which a master has thousands, go this way: with gRPC each took five goroutines
// and three times as much memory.
//
// Nothing else that HTTP/2 has is needed here. TCP holds back who sends what nobody reads, and heartbeats show who is
// gone.
package direct

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc/mem"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/wire"
)

// greeting is what a client sends first. It begins with another letter than HTTP/2 does.
const greeting = "TENDER 1\n"

// A frame is its kind, the length of its body as four bytes, the greatest first, and its body.
const (
	kindMessage = iota // a message of the stream
	kindEnd            // from a client: it sends no more; from a server: the error with which the stream ends

	headBytes = 5
)

// pieceMin is how much of a body is read before a larger piece of memory is taken for the rest, and pieceMax how large
// such a piece is: whoever announces much and sends little has little.
const (
	pieceMin = 4 << 10
	pieceMax = 64 << 10
)

// end is one end of a stream. One goroutine at a time receives, and one sends.
type end struct {
	conn    net.Conn
	most    int             // bytes of the largest message that it takes
	head    [headBytes]byte // of the frame that it receives
	sending sync.Mutex      // held while it sends
}

// SendMsg sends a message.
func (e *end) SendMsg(message any) error {
	body, err := wire.Codec().Marshal(message)
	if err != nil {
		return err
	}
	defer body.Free()
	e.sending.Lock()
	defer e.sending.Unlock()
	return e.send(kindMessage, body)
}

// send writes a frame at once; the caller holds sending.
func (e *end) send(kind byte, body mem.BufferSlice) error {
	size := body.Len()
	frame := wire.Buffers().Get(headBytes + size)
	defer wire.Buffers().Put(frame)
	(*frame)[0] = kind
	binary.BigEndian.PutUint32((*frame)[1:], uint32(size))
	body.CopyTo((*frame)[headBytes:])
	_, err := e.conn.Write(*frame)
	return err
}

// receive reads the next frame. The caller frees its body. Where it waits for the frame there is little on the stack, as a
// master has thousands of streams that wait: so what follows is a function of its own.
func (e *end) receive() (kind byte, body mem.BufferSlice, err error) {
	if _, err := io.ReadFull(e.conn, e.head[:]); err != nil {
		return 0, nil, err
	}
	return e.receiveBody()
}

func (e *end) receiveBody() (kind byte, body mem.BufferSlice, err error) {
	if e.head[0] > kindEnd {
		return 0, nil, api.E("stream.receive", api.Invalid, "", fmt.Errorf("a frame of kind %d, where there are 0 and 1", e.head[0]))
	}
	left := int(binary.BigEndian.Uint32(e.head[1:]))
	if left > e.most {
		return 0, nil, api.E("stream.receive", api.Limit, "", fmt.Errorf("a message has %d bytes, at most %d are taken", left, e.most))
	}
	for piece := pieceMin; left > 0; piece = pieceMax {
		buffer := wire.Buffers().Get(min(left, piece))
		body = append(body, mem.NewBuffer(buffer, wire.Buffers()))
		if _, err := io.ReadFull(e.conn, *buffer); err != nil {
			body.Free()
			return 0, nil, err
		}
		left -= len(*buffer)
	}
	return e.head[0], body, nil
}
