package master

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/internal/outbox"
)

// peers holds the streams and requests that a leader's loop serves. The effects of the core go to them.
type peers struct {
	schedulers map[core.Conn]*schedulerStream
	agents     map[core.Conn]*agentStream
	requests   map[core.RequestID]chan<- core.Reply
	touched    []flusher        // streams with something new in their queue
	slow       []core.Happening // streams whose queue ran over; the core has not been told yet
	refused    int              // calls of schedulers that were refused in this step
	dropped    prometheus.Counter
}

// flusher is a stream whose writer is to be woken once after a batch.
type flusher interface{ Flush() }

func newPeers(dropped prometheus.Counter) peers {
	return peers{
		dropped:    dropped,
		schedulers: make(map[core.Conn]*schedulerStream),
		agents:     make(map[core.Conn]*agentStream),
		requests:   make(map[core.RequestID]chan<- core.Reply),
	}
}

// queued remembers streams whose writer must be woken, and streams that are closed because their queue is full. The
// core must be told of the latter, because their reader may take long to notice.
func (p *peers) queued(stream flusher, how outbox.Putting, closed core.Happening) {
	switch how {
	case outbox.PutFirst:
		p.touched = append(p.touched, stream)
	case outbox.PutTooMuch:
		p.slow = append(p.slow, closed)
	case outbox.PutDropped:
		p.dropped.Inc()
	case outbox.PutBehind:
	}
}

// flush wakes the writers of the streams that have something new.
func (p *peers) flush() {
	for _, stream := range p.touched {
		stream.Flush()
	}
	clear(p.touched)
	p.touched = p.touched[:0]
}

// close ends every stream, and answers every waiting request with the error unknown.
func (p *peers) close(err, unknown *api.Error) {
	for _, stream := range p.schedulers {
		stream.Close(err)
	}
	for _, stream := range p.agents {
		stream.Close(err)
	}
	for id, replies := range p.requests { // order: irrelevant because each reply says which it is
		replies <- core.Reply{ID: id, Err: unknown}
	}
}
