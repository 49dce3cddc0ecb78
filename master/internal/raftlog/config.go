package raftlog

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/quorum"
	"github.com/tenderhq/tender/master/registry"
)

// Peer is a master of the quorum.
type Peer = quorum.Peer

// ParsePeer parses ID=HOST:PORT.
func ParsePeer(text string) (Peer, error) {
	id, addr, ok := strings.Cut(text, "=")
	if !ok {
		return Peer{}, fmt.Errorf("peer %q: write ID=HOST:PORT, such as m1=10.0.0.1:5070", text)
	}
	if err := api.CheckID("a master's ID", id); err != nil {
		return Peer{}, err
	}
	if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
		return Peer{}, fmt.Errorf("peer %q: %q is no HOST:PORT", text, addr)
	}
	return Peer{ID: api.MasterID(id), Addr: addr}, nil
}

// Profile is a set of Raft's timeouts.
type Profile string

// The profiles. All masters of a quorum must use the same one.
const (
	// ProfileLAN is for masters in one site; it is the default. A leader whose process has died is replaced in about
	// 100 ms, one that is only silent in 0.8 to 2.4 s. DESIGN.md has the measurements.
	ProfileLAN Profile = "lan"
	// ProfileFast is for tests, and for machines that are never short of processors.
	ProfileFast Profile = "fast"
	// ProfileWAN has the library's timeouts, for masters that are far from each other.
	ProfileWAN Profile = "wan"
)

type timing struct {
	heartbeat, election, lease, commit time.Duration
}

var timings = map[Profile]timing{
	ProfileLAN:  {800 * time.Millisecond, 800 * time.Millisecond, 800 * time.Millisecond, 50 * time.Millisecond},
	ProfileFast: {50 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond, 5 * time.Millisecond},
	ProfileWAN:  {time.Second, time.Second, 500 * time.Millisecond, 50 * time.Millisecond},
}

// Check returns why p is not a profile; nil if it is one. "" is the default.
func (p Profile) Check() error {
	if _, ok := timings[p.orDefault()]; !ok {
		return fmt.Errorf("profile %q is unknown; there are lan, fast and wan", p)
	}
	return nil
}

func (p Profile) orDefault() Profile {
	if p == "" {
		return ProfileLAN
	}
	return p
}

// Config says who this master is, where its files are, and how the other masters are reached.
type Config struct {
	// Dir is the folder with the settings and Raft's files. The caller holds its lock.
	Dir string
	// Memory replaces Dir in tests and for clusters in memory. What is written to it outlives Run, but not the process.
	Memory *Memory
	// ID is this master's ID. Default: the ID in the folder.
	ID api.MasterID
	// Peers are all founders including this master, the same list on each of them; or, to join an existing quorum, any
	// of its masters without this one. Used once, by an empty folder. None: a quorum of one.
	Peers []Peer
	// Listener accepts the connections of other masters. Run closes it.
	Listener net.Listener
	// Advertise is the address under which others reach the listener. Default: the listener's address.
	Advertise string
	// Dial connects to another master's Raft listener. Default: TCP.
	Dial func(addr string, timeout time.Duration) (net.Conn, error)
	// Profile selects Raft's timeouts. Default lan.
	Profile Profile
	// SnapshotEntries is after how many entries of the log a snapshot is made. Default 8192.
	SnapshotEntries uint64
	// Version is this program's version. Masters whose minor versions are more than one apart do not talk to each other
	// (R24).
	Version string
	// Format is the newest format of entries and snapshots that this master claims to read. Default: registry.Format.
	// With it a test can act as an older version.
	Format uint64
	Logger zerolog.Logger
	// Committed, if set, is called with the size of a batch of our own commands and how long it took to commit.
	Committed func(commands int, took time.Duration)
	// Changed, if set, is called when the leader may have changed. It must not wait.
	Changed func()
	// Rights, if set, is called when anybody's rights may have changed. It must not wait.
	Rights func()
}

func (c Config) withDefaults() (Config, error) {
	if c.Dial == nil {
		c.Dial = func(addr string, timeout time.Duration) (net.Conn, error) {
			return net.DialTimeout("tcp", addr, timeout)
		}
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	if c.Rights == nil {
		c.Rights = func() {}
	}
	if c.Advertise == "" && c.Listener != nil {
		c.Advertise = c.Listener.Addr().String()
	}
	c.SnapshotEntries = cmp.Or(c.SnapshotEntries, 8192)
	c.Format = cmp.Or(c.Format, registry.Format)
	c.Profile = c.Profile.orDefault()
	return c, c.check()
}

// trailing returns how many entries of the log usually stay behind a snapshot.
func (c Config) trailing() uint64 { return c.SnapshotEntries + c.SnapshotEntries/4 }

func (c Config) check() error {
	var bad []error
	if c.Listener == nil {
		bad = append(bad, errors.New("no Raft listener is given"))
	}
	if (c.Dir == "") == (c.Memory == nil) {
		bad = append(bad, errors.New("exactly one of a data folder and a memory must be given"))
	}
	bad = append(bad, c.Profile.Check(), c.checkPeers())
	return errors.Join(bad...)
}

func (c Config) checkPeers() error {
	ids, addrs := map[api.MasterID]bool{}, map[string]bool{}
	for _, peer := range c.Peers {
		if ids[peer.ID] || addrs[peer.Addr] {
			return fmt.Errorf("peer %s=%s repeats an ID or an address", peer.ID, peer.Addr)
		}
		ids[peer.ID], addrs[peer.Addr] = true, true
	}
	// A master that is not among its own peers joins an existing quorum.
	if n := len(c.Peers); ids[c.ID] && n%2 == 0 || n > 7 {
		return fmt.Errorf("%d founders are named; take 1, 3 or 5", n)
	}
	return nil
}
