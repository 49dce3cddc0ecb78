package frameworktest

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master"
)

// The ports of every master, as in real clusters.
const (
	grpcPort = "5060"
	httpPort = "5050"
	raftPort = "5070"
)

// Master is one master of the quorum, with its disk, on a host of its own.
type Master struct {
	handle *Handle
	host   string
	id     api.MasterID
	memory *master.Memory
	life   runner
}

func newMaster(h *Handle, number int) *Master {
	host := "master-" + strconv.Itoa(number)
	return &Master{handle: h, host: host, id: api.MasterID(host), memory: master.NewMemory()}
}

func (m *Master) grpcAddress() string { return net.JoinHostPort(m.host, grpcPort) }

// Running reports whether the master's process runs.
func (m *Master) Running() bool { return m.life.runs() }

// Start starts the master's process with its disk, unless it runs.
func (m *Master) Start() {
	m.handle.t.Helper()
	if m.Running() {
		return
	}
	m.handle.network.isolate(m.host, false)
	m.handle.operator.renew(m.grpcAddress())
	run, err := m.assembleLife()
	if err != nil {
		m.handle.t.Fatalf("%s: %v", m.host, err)
	}
	m.life.beginRun(context.Background(), m.handle, m.host, run)
}

// Kill ends the master's process as kill -9 does: from this moment on it is not heard any more.
func (m *Master) Kill() {
	if !m.Running() {
		return
	}
	m.handle.network.crash(m.host)
	m.life.endRun()
	m.handle.network.crash(m.host)
	m.handle.network.isolate(m.host, false)
}

// Stop ends the master's process in order.
func (m *Master) Stop() { m.life.endRun() }

// Isolate cuts the master off from all others; it goes on alone.
func (m *Master) Isolate() { m.handle.network.isolate(m.host, true) }

// Rejoin undoes Isolate.
func (m *Master) Rejoin() { m.handle.network.isolate(m.host, false) }

func (m *Master) describeMaster() string {
	switch {
	case m.life.stop == nil:
		return "never started"
	case !m.Running():
		return fmt.Sprintf("ended: %v", m.life.err)
	}
	view, err := m.handle.operator.cluster(m.grpcAddress())
	if err != nil {
		return fmt.Sprintf("runs; can't be asked: %v", err)
	}
	return fmt.Sprintf("runs; leader %q at term %d, index %d", view.GetLeaderId(), view.GetTerm().GetNumber(), view.GetIndex())
}

// HTTPAddress is the address at which the master serves metrics and the operator's service as JSON; connect to it by
// [Handle.Dial].
func (m *Master) HTTPAddress() string { return net.JoinHostPort(m.host, httpPort) }

// MasterAddresses returns the gRPC addresses of all masters.
func (h *Handle) MasterAddresses() []string {
	var list []string
	for _, m := range h.masters {
		list = append(list, m.grpcAddress())
	}
	return list
}

// Master returns the master with this number, from 1.
func (h *Handle) Master(number int) *Master { return h.masters[number-1] }

// Leader waits until a master leads, and returns it.
func (h *Handle) Leader() *Master {
	h.t.Helper()
	var leader *Master
	h.Await("a master to lead", func() bool {
		leader = h.findLeader()
		return leader != nil
	})
	return leader
}

// findLeader asks all masters, and returns the one that believes that it leads; if there are several, the one with the
// newest term. nil: there is none.
func (h *Handle) findLeader() *Master {
	var leader *Master
	var term api.Term
	for _, m := range h.masters {
		if !m.Running() || h.network.isolated(m.host) {
			continue
		}
		view, err := h.operator.cluster(m.grpcAddress())
		if err != nil || view.GetLeaderId() != string(m.id) {
			continue
		}
		theirs := api.Term{Epoch: view.GetTerm().GetEpoch(), Number: view.GetTerm().GetNumber()}
		if leader == nil || term.Before(theirs) {
			leader, term = m, theirs
		}
	}
	return leader
}

func (h *Handle) leaderOrFirst() *Master {
	if m := h.findLeader(); m != nil {
		return m
	}
	return h.masters[0]
}
