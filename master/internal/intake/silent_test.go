package intake

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/peer"
)

// TestSilentStreamsOfAnAddressAreBounded (R34): over all of its connections; others have nothing to do with it.
func TestSilentStreamsOfAnAddressAreBounded(t *testing.T) {
	all := NewPeers(new(heldTimes).held)
	evicted := make(map[string]int)
	silent := func(who string, s *Sender) (heard func()) {
		return s.Silent(func() { evicted[who]++ })
	}
	honest, own := all.connected(from("10.0.0.2")), NewSender()
	silent("honest", honest)
	silent("own", own)
	first := silent("first", all.connected(from("10.0.0.1")))
	for range silentStreamsMax - 1 {
		silent("mute", all.connected(from("10.0.0.1")))
	}
	if len(evicted) != 0 {
		t.Fatalf("as many as may be, and %v are evicted", evicted)
	}
	heard := silent("heard", all.connected(from("10.0.0.1")))
	if evicted["first"] != 1 || len(evicted) != 1 {
		t.Errorf("one more, and %v are evicted", evicted)
	}
	first()
	heard()
	silent("last", all.connected(from("10.0.0.1")))
	if len(evicted) != 1 {
		t.Errorf("who was heard made room, and %v are evicted", evicted)
	}
}

// TestSilentConnectionsAreBounded (R34): of too many connections of an address on which nothing was called, the oldest is
// closed, and counted; one on which something was called stays.
func TestSilentConnectionsAreBounded(t *testing.T) {
	var refused atomic.Uint64
	peers := NewPeers(new(heldTimes).held)
	call, accepted := listen(t, 2*silentConnectionsMax, &refused, peers)
	dial := func() (there, here net.Conn) { return call(), <-accepted }
	called, here := dial()
	SenderOf(peer.NewContext(context.Background(), &peer.Peer{Addr: here.RemoteAddr()}))
	mute, _ := dial()
	for range silentConnectionsMax - 1 {
		dial()
	}
	if n := refused.Load(); n != 0 {
		t.Errorf("as many as may be silent, and %d were refused", n)
	}
	_, last := dial()
	if _, err := mute.Read(make([]byte, 1)); err == nil || refused.Load() != 1 {
		t.Errorf("the oldest is not closed: %v, %d refused", err, refused.Load())
	}
	_ = last.Close()
	_ = last.Close()
	dial()
	if n := refused.Load(); n != 1 {
		t.Errorf("who has gone made room, and %d were refused", n)
	}
	_ = here.Close()
	if _, err := called.Read(make([]byte, 1)); err == nil || len(peers.addresses.known) != 1 {
		t.Errorf("%v, %d addresses", err, len(peers.addresses.known))
	}
}
