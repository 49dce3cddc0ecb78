package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/internal/mesos/codec"
	schedulerv1 "github.com/tenderhq/tender/internal/mesos/v1/scheduler"
)

const (
	// streamHeader names the stream that a call belongs to.
	streamHeader = "Mesos-Stream-Id"
	// streamBytesMax bounds the events that wait for a framework that does not read them. Beyond it its stream ends; it
	// subscribes again, and what it has not acknowledged comes again.
	streamBytesMax = 16 << 20
	// writeTimeout bounds one write to a framework that does not read.
	writeTimeout = 30 * time.Second
)

var errTooSlow = errors.New("the framework does not read its events")

// events is the queue of a stream. It may be used from any goroutine.
type events struct {
	encoding codec.Encoding
	wake     chan struct{} // capacity 1: there is something to do

	mu     sync.Mutex
	queue  [][]byte
	bytes  int
	closed bool // nothing more is taken in
}

func newEvents(encoding codec.Encoding) *events {
	return &events{encoding: encoding, wake: make(chan struct{}, 1)}
}

// send queues an event. What comes after the end is dropped.
func (e *events) send(event *schedulerv1.Event) error {
	record, err := e.encoding.Marshal(event)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	if e.bytes += len(record); e.bytes > streamBytesMax {
		e.closed, e.queue = true, nil
		return errTooSlow
	}
	e.queue = append(e.queue, record)
	select {
	case e.wake <- struct{}{}:
	default:
	}
	return nil
}

// take returns what waits.
func (e *events) take() [][]byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	queue := e.queue
	e.queue, e.bytes = nil, 0
	return queue
}

// write writes events, with heartbeats between them, until the client has gone, ctx ends, or over is closed; then it
// writes what still waits.
func (e *events) write(ctx context.Context, w http.ResponseWriter, heartbeat time.Duration, over <-chan struct{}) error {
	out := http.NewResponseController(w)
	ticks := time.NewTicker(heartbeat)
	defer ticks.Stop()
	for ended := false; ; {
		for _, record := range e.take() {
			_ = out.SetWriteDeadline(time.Now().Add(writeTimeout)) // what can't have a deadline has none
			if err := codec.WriteRecord(w, record); err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		select {
		case <-e.wake:
		case <-ticks.C:
			if err := e.send(heartbeatEvent()); err != nil {
				return err
			}
		case <-over:
			ended = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func heartbeatEvent() *schedulerv1.Event {
	return &schedulerv1.Event{Type: schedulerv1.Event_HEARTBEAT.Enum()}
}

func errorEvent(message string) *schedulerv1.Event {
	return &schedulerv1.Event{Type: schedulerv1.Event_ERROR.Enum(), Error: &schedulerv1.Event_Error{Message: proto.String(message)}}
}
