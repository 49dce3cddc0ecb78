package master

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/datafolder"
	"github.com/tenderhq/tender/internal/logging"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/version"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/registry"
)

// Peer is a founder of the quorum: its ID and the address of its Raft listener.
type Peer = raftlog.Peer

// ParsePeer parses ID=HOST:PORT.
func ParsePeer(text string) (Peer, error) { return raftlog.ParsePeer(text) }

// Memory replaces the data folder for clusters that run in memory.
type Memory = raftlog.Memory

// NewMemory returns an empty Memory.
func NewMemory() *Memory { return raftlog.NewMemory() }

// Access says how a master learns who calls, and where it records what callers change.
type Access = guard.Access

// Config is what a master is made from. Zero fields mean the documented defaults. A field whose comment says "Kept" is
// written to the data folder, where a later start finds it.
type Config struct {
	// ID names the master in its quorum. Kept. Required for a new folder.
	ID api.MasterID
	// DataDir is the master's folder. Two masters never share one. Required, unless Memory is given.
	DataDir string
	// Memory holds what the data folder would. It outlives Run, but not the process.
	Memory *Memory
	// Peers are all founders of the quorum, including this master; or some masters of a quorum that this one is to
	// join. Used once, by a new folder. None: a quorum of one.
	Peers []Peer

	// GRPC, HTTP and Raft are the addresses of the listeners, HOST:PORT. Port 0 means any free port. Kept. Default
	// 127.0.0.1:5060, :5050, :5070. HTTP "none" opens no HTTP listener.
	GRPC, HTTP, Raft string
	// DNS is the address, HOST:PORT, at which names of tasks are answered to everyone who reaches it; see package
	// names. Not kept. Default: none.
	DNS string
	// NoPage leaves out the page for people at the HTTP listener, and the login to it. Not kept.
	NoPage bool
	// Advertise is the host under which others reach the listeners. Kept. Default: the host to which they are bound.
	Advertise string
	// Trust says how this master and its peers prove who they are.
	Trust Trust

	// Access says how this master learns who calls. Default: nobody is asked, and everybody may do everything.
	Access Access

	// Profile selects Raft's timeouts: lan, fast or wan. Kept. It must be the same on all masters. Default lan.
	Profile string
	// Allocator is the name of the policy; see package allocator. It must be the same on all masters. Default
	// fairshare.
	Allocator string
	// AllocatorConfig is what the policy is made from.
	AllocatorConfig allocator.Config
	// AllocatorJournal is a file to which what the policy is told and proposes is written while this master leads, for
	// `tender allocator replay`. Default: none.
	AllocatorJournal string
	// History says how much of what happens this master keeps on its disk.
	History History
	// Snapshots says how often this master saves its registry.
	Snapshots Snapshots
	// Core configures the leader's core: times and limits. Its fields Master, Client, Version and Compile are set by
	// this package, and so is ReceiptKey where the cluster has a key.
	Core core.Config

	// Listen opens a listener. Default: TCP.
	Listen func(address string) (net.Listener, error)
	// Dial connects to another master. Default: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Logger logs each decision. Default: nothing is logged.
	Logger *zerolog.Logger
	// Log says what is known of Logger, and how the process was started.
	Log Log
	// Version is shown to people. Default: the build's.
	Version string
}

// Log describes a master's logger, and how its process was started.
type Log struct {
	// Written is what the logger writes to, for the metrics and for those who ask for the newest lines. Default: not
	// known.
	Written *logging.Writer
	// Level is the level from which on the logger writes. Default: not known, and it can't be changed.
	Level *logging.Level
	// Flags are the flags that the master was started with, by name, for people who look. Secret ones have no value.
	Flags map[string]string
}

// shows reports whether the logger writes lines of a level. It asks Level where that is known, because it may change;
// otherwise the logger itself.
func (l Log) shows(level zerolog.Level, logger zerolog.Logger) bool {
	if l.Level != nil {
		return l.Level.Shows(level)
	}
	return logger.GetLevel() <= level
}

// The defaults.
const (
	defaultGRPC      = "127.0.0.1:5060"
	defaultHTTP      = "127.0.0.1:5050"
	defaultRaft      = "127.0.0.1:5070"
	defaultAllocator = "fairshare"
	noListener       = "none"
)

// kept is the part of a Config that is stored in the folder.
type kept struct {
	Format    int    `json:"format"`
	GRPC      string `json:"grpc"`
	HTTP      string `json:"http"`
	Raft      string `json:"raft"`
	Advertise string `json:"advertise"`
	Insecure  bool   `json:"insecure"`
	Profile   string `json:"profile"`
	// Sum is the checksum of all other fields.
	Sum string `json:"sum,omitempty"`
}

// summed returns the same with its checksum set.
func (k kept) summed() kept {
	k.Sum = ""
	k.Sum = raftlog.SumOf(k)
	return k
}

const (
	keptFile   = "master.json"
	keptFormat = 1
)

// withFolder fills empty fields with what an earlier start has left in the data folder: the cluster's key, the flags, and
// the master's ID, which must not be another one. It refuses the folder of somebody else, because this master would deny
// all others access to it.
func (c Config) withFolder() (_ Config, err error) {
	if err := datafolder.Check(c.DataDir, datafolder.Master); err != nil {
		return c, api.E("master.config", api.Invalid, c.DataDir, err)
	}
	if c.Trust.Key.IsZero() {
		if c.Trust.Key, err = trust.ReadKey(c.DataDir); err != nil {
			return c, err
		}
	}
	if c, err = c.withKept(); err != nil {
		return c, err
	}
	id, err := raftlog.IDIn(c.DataDir, c.ID)
	c.ID = cmp.Or(id, c.ID)
	return c, err
}

// withKept fills empty fields with those that an earlier start stored in the folder.
func (c Config) withKept() (Config, error) {
	data, err := os.ReadFile(filepath.Join(c.DataDir, keptFile))
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	var k kept
	if err == nil {
		err = k.read(data)
	}
	if err != nil {
		return c, api.E("master.config", api.Invalid, c.DataDir, fmt.Errorf("%s can't be read: %w", keptFile, err))
	}
	c.GRPC, c.HTTP, c.Raft = cmp.Or(c.GRPC, k.GRPC), cmp.Or(c.HTTP, k.HTTP), cmp.Or(c.Raft, k.Raft)
	c.Advertise, c.Profile = cmp.Or(c.Advertise, k.Advertise), cmp.Or(c.Profile, k.Profile)
	c.Trust.Insecure = c.Trust.Insecure || k.Insecure && c.Trust.Key.IsZero() && c.Trust.Obtain == nil
	return c, nil
}

// withObtained obtains the key if the folder has none, or one that is no longer valid.
func (c Config) withObtained() (Config, error) {
	if c.Trust.Obtain == nil {
		return c, nil
	}
	key, peers, err := c.Trust.Obtain(c.ID)
	c.Trust.Key = key
	if len(c.Peers) == 0 {
		c.Peers = peers
	}
	return c, err
}

// read parses the file. It refuses a newer format, in which fields may have other types.
func (k *kept) read(data []byte) error {
	var format struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &format); err != nil {
		return fmt.Errorf("it is damaged: %w; %s", err, howToKeepAnew)
	}
	if format.Format > keptFormat {
		return fmt.Errorf("it has format %d and this version knows format %d; start the version that wrote it, or a newer one",
			format.Format, keptFormat)
	}
	if err := json.Unmarshal(data, k); err != nil {
		return fmt.Errorf("it is damaged: %w; %s", err, howToKeepAnew)
	}
	if k.Sum != k.summed().Sum {
		return fmt.Errorf("it is damaged: its checksum is wrong; %s", howToKeepAnew)
	}
	return nil
}

const howToKeepAnew = "delete it and start this master with all its flags, as at the first time"

func (c Config) keep() error {
	if c.DataDir == "" {
		return nil
	}
	data, err := json.MarshalIndent(kept{keptFormat, c.GRPC, c.HTTP, c.Raft, c.Advertise, c.Trust.Insecure, c.Profile, ""}.summed(), "", "  ")
	if err != nil {
		return err
	}
	return raftlog.WriteFileSynced(filepath.Join(c.DataDir, keptFile), append(data, '\n'))
}

func (c Config) withDefaults() Config {
	c.GRPC, c.HTTP, c.Raft = cmp.Or(c.GRPC, defaultGRPC), cmp.Or(c.HTTP, defaultHTTP), cmp.Or(c.Raft, defaultRaft)
	c.Profile, c.Allocator = cmp.Or(c.Profile, string(raftlog.ProfileLAN)), cmp.Or(c.Allocator, defaultAllocator)
	c.Version = cmp.Or(c.Version, version.String())
	if c.Listen == nil {
		c.Listen = transport.ListenTCP
	}
	if c.Dial == nil {
		c.Dial = transport.DialTCP
	}
	if c.Logger == nil {
		nop := zerolog.Nop()
		c.Logger = &nop
	}
	return c
}

// check reports everything that is wrong together.
func (c Config) check() error {
	var bad []error
	wrong := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	if c.ID != "" {
		if err := api.CheckID("the master's ID", string(c.ID)); err != nil {
			bad = append(bad, err)
		}
	}
	if (c.DataDir == "") == (c.Memory == nil) {
		wrong("a data folder is needed")
	}
	policy, err := allocator.Make(c.Allocator, c.AllocatorConfig)
	if err != nil {
		bad = append(bad, err)
	} else if _, lives := policy.(living); lives && c.AllocatorJournal != "" {
		wrong("no journal can be kept of allocator %s: it answers from another process when it likes, so what it proposed does not follow from what is recorded; leave --allocator-journal out, or choose a policy of this process", c.Allocator)
	}
	if err := raftlog.Profile(c.Profile).Check(); err != nil {
		bad = append(bad, err)
	}
	if err := c.checkTrust(); err != nil {
		bad = append(bad, err)
	}
	if err := errors.Join(c.History.check(), c.Snapshots.check()); err != nil {
		bad = append(bad, err)
	}
	bad = append(bad, c.checkListeners()...)
	bad = append(bad, c.checkTimes()...)
	if n := c.Core.StoreBytesMax; n < 0 || n > registry.StoreBytesMax {
		wrong("the stores may hold %d bytes together; it must be at most %d", n, registry.StoreBytesMax)
	}
	if len(bad) == 0 {
		return nil
	}
	return api.E("master.config", api.Invalid, c.ID, errors.Join(bad...))
}

// checkListeners refuses invalid addresses and two listeners at the same address. It also refuses a first start that
// would tell others to connect to "every address" (0.0.0.0), which leads each of them to itself.
func (c Config) checkListeners() (bad []error) {
	at := map[string]string{}
	for _, listener := range []struct{ name, address string }{
		{"gRPC", c.GRPC}, {"HTTP", c.HTTP}, {"Raft", c.Raft}, {"DNS", cmp.Or(c.DNS, noListener)},
	} {
		name, address := listener.name, listener.address
		if address == noListener {
			continue
		}
		_, port, err := net.SplitHostPort(address)
		switch other := at[address]; {
		case err != nil:
			bad = append(bad, fmt.Errorf("%s: %q is no HOST:PORT to listen on; write one such as 10.0.0.1:8443", name, address))
		case other != "" && port != "0":
			bad = append(bad, fmt.Errorf("%s and %s are both to listen at %s; give each a port of its own", other, name, address))
		}
		at[address] = name
	}
	if c.Advertise != "" {
		if err := transport.CheckAdvertised(c.Advertise); err != nil {
			bad = append(bad, fmt.Errorf("advertised host: %w", err))
		}
	}
	if c.reachedNowhere() && !c.hasRun() {
		bad = append(bad, errors.New(transport.HowToAdvertise))
	}
	return bad
}

// reachedNowhere reports whether others would be told to connect to "every address".
func (c Config) reachedNowhere() bool {
	return c.Advertise == "" && (isEveryAddress(c.GRPC) || isEveryAddress(c.Raft) || isEveryAddress(c.HTTP))
}

// isEveryAddress reports whether a listener is bound to all addresses of its machine.
func isEveryAddress(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && (host == "" || net.ParseIP(host).IsUnspecified())
}

// isLoopback reports whether only this machine can reach a listener. It is true for a listener that is not opened.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return address == noListener || err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// checkTrust refuses a master that would serve everyone who reaches it, unless it was told to. A master in memory can
// be reached only by its own process.
func (c Config) checkTrust() error {
	switch {
	case c.Trust.Insecure && !c.Trust.Key.IsZero():
		return errors.New("the cluster has a key, so this master does nothing unencrypted; leave insecure out")
	case c.Trust.OpenHTTP && !isLoopback(c.HTTP):
		return fmt.Errorf("HTTP without certificates is for this machine alone, and %s can be reached by others", c.HTTP)
	case c.Trust.Plain && c.Memory == nil:
		return errors.New("plain is for masters in memory; say insecure, or neither")
	case c.Trust.Insecure || !c.Trust.Key.IsZero() || c.Trust.Obtain != nil || c.Memory != nil || c.DataDir == "":
		return nil
	case datafolder.HasBegun(c.DataDir, datafolder.Master):
		return fmt.Errorf("%s is the folder of a cluster, and holds no key of it (%s), which no snapshot holds either: if the cluster has one, copy "+
			"the file from another master's folder or from a backup; if it runs without, say --insecure to go on so, and whoever reaches "+
			"this master may do everything", c.DataDir, trust.KeyFile)
	}
	return fmt.Errorf("%s holds no cluster's key, so whoever reaches this master could do everything: make one (tender init --data-dir %s), join a "+
		"cluster that has one (--join FILE), or say --insecure if the network is trusted", c.DataDir, c.DataDir)
}

// hasRun reports whether a master has run in the data folder before.
func (c Config) hasRun() bool {
	_, err := os.Stat(filepath.Join(c.DataDir, keptFile))
	return err == nil
}

func (c Config) checkTimes() (bad []error) {
	times := []struct {
		name string
		d    time.Duration
	}{
		{"heartbeat interval", c.Core.HeartbeatInterval},
		{"session timeout", c.Core.SessionTimeout},
		{"tombstone time", c.Core.TombstoneAfter},
		{"offer timeout", c.Core.OfferTimeout},
		{"failover timeout", c.Core.FailoverTimeout},
		{"preemption grace", c.Core.PreemptionGrace},
	}
	for _, t := range times {
		if t.d < 0 {
			bad = append(bad, fmt.Errorf("the %s is %v; it must not be negative", t.name, t.d))
		}
	}
	return bad
}

// advertised returns the address under which others reach a listener that is bound to the given address.
func (c Config) advertised(bound string) string {
	if c.Advertise == "" {
		return bound
	}
	_, port, err := net.SplitHostPort(bound)
	if err != nil {
		return bound
	}
	return net.JoinHostPort(c.Advertise, port)
}
