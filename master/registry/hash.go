package registry

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// Hash is the fingerprint of everything but Index, in hex: equal on all masters that
// have applied the same commands.
func (s *State) Hash() string {
	h := hasher{hash: sha256.New(), format: s.format()}
	h.text("tender registry")
	h.number(s.format())
	h.text(string(s.Cluster))
	h.number(s.Epoch)
	h.number(s.NextAgent)
	h.number(s.NextFramework)
	if h.format >= FormatBounded {
		h.numbers(s.LostAgents)
		h.numbers(s.LostFrameworks)
	}
	walk(&h, s.Masters, h.master)
	walk(&h, s.Agents, h.agent)
	walk(&h, s.Frameworks, h.framework)
	walk(&h, s.Roles, h.role)
	walk(&h, s.Clients, h.client)
	h.flush()
	return hex.EncodeToString(h.hash.Sum(nil))
}

// hasher writes fields one after the other, each with its length where it has one, so
// that no two states write the same bytes.
type hasher struct {
	hash   hash.Hash
	buffer []byte // of what is not yet in hash
	format uint64 // of the state: what an older one can't say is not in it
}

const hasherBufferBytes = 8 << 10

// walk writes a map in the order of its keys.
func walk[K cmp.Ordered, V any](h *hasher, m map[K]V, value func(K, V)) {
	h.number(uint64(len(m)))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		value(key, m[key])
	}
}

func (h *hasher) flush() {
	h.hash.Write(h.buffer)
	h.buffer = h.buffer[:0]
}

func (h *hasher) number(n uint64) {
	h.buffer = binary.AppendUvarint(h.buffer, n)
	if len(h.buffer) >= hasherBufferBytes {
		h.flush()
	}
}

func (h *hasher) signed(n int64) { h.number(uint64(n)) }

func (h *hasher) text(text string) {
	h.number(uint64(len(text)))
	h.buffer = append(h.buffer, text...)
}

func (h *hasher) flag(on bool) {
	if on {
		h.number(1)
	} else {
		h.number(0)
	}
}

func (h *hasher) time(t time.Time) {
	h.signed(t.Unix())
	h.signed(int64(t.Nanosecond()))
}

func (h *hasher) numbers(list []Numbers) {
	h.number(uint64(len(list)))
	for _, one := range list {
		h.number(one.First)
		h.number(one.Next)
	}
}

func (h *hasher) master(id api.MasterID, m Master) {
	for _, text := range []string{string(id), m.GRPC, m.HTTP, m.Raft, m.Version, m.Allocator} {
		h.text(text)
	}
}

func (h *hasher) agent(_ api.AgentID, a Agent) {
	for _, text := range []string{
		string(a.Agent.ID), a.Agent.Hostname, a.Agent.Region, a.Agent.Zone, a.Agent.Address, a.Agent.Version,
		string(a.Nonce), a.BootID, a.Why,
	} {
		h.text(text)
	}
	h.resources(a.Agent.Resources)
	h.words(a.Agent.Attributes)
	h.number(uint64(a.Marks))
	h.signed(int64(a.Grace))
	h.time(a.Admitted)
	h.resources(a.Reserved)
	if h.format >= FormatMaintenance {
		h.time(a.Maintenance.Start)
		h.signed(int64(a.Maintenance.Duration))
		h.flag(a.Maintained)
	}
	if h.format >= FormatBounded {
		h.time(a.Gone)
	}
}

func (h *hasher) framework(_ api.FrameworkID, f Framework) {
	h.frameworkInfo(f.Framework)
	h.text(string(f.Instance))
	h.number(f.Session)
	h.time(f.Admitted)
	h.time(f.Removed)
	h.text(f.Why)
	h.signed(f.StoreSize)
	h.number(f.StoreVersion)
	walk(h, f.Store, func(key string, entry Entry) {
		h.text(key)
		h.number(uint64(len(entry.Value)))
		h.buffer = append(h.buffer, entry.Value...)
		h.number(entry.Version)
	})
	if h.format >= FormatOperations {
		h.number(uint64(len(f.Operations)))
		for _, operation := range f.Operations {
			h.text(string(operation.ID))
			h.text(string(operation.Agent))
		}
	}
}

func (h *hasher) frameworkInfo(f api.Framework) {
	for _, text := range []string{string(f.ID), f.Name, f.Principal, f.Constraint} {
		h.text(text)
	}
	h.number(uint64(len(f.Roles)))
	for _, role := range f.Roles {
		h.text(string(role))
	}
	h.signed(int64(f.FailoverTimeout))
	h.flag(f.Standby)
	h.flag(f.Revocable)
	h.resources(f.MinOffer)
	h.resources(f.MaxOffer)
	h.words(f.Labels)
	h.words(f.Endpoints)
}

func (h *hasher) role(role api.Role, set Role) {
	h.text(string(role))
	h.number(math.Float64bits(set.Weight))
	h.signed(int64(set.Priority))
	h.resources(set.Guarantee)
	h.resources(set.Limit)
}

func (h *hasher) client(name string, c Client) {
	h.text(name)
	h.number(c.Counter)
	h.time(c.Seen)
	h.text(string(c.Result.Agent))
	h.text(string(c.Result.Framework))
	h.number(c.Result.Session)
	h.number(c.Result.Version)
	h.flag(c.Result.Err != nil)
	if err := c.Result.Err; err != nil {
		h.text(err.Op)
		h.number(uint64(err.Kind))
		h.text(err.Subject)
		h.flag(err.Err != nil)
		if err.Err != nil {
			h.text(err.Err.Error())
		}
	}
}

func (h *hasher) words(words map[string]string) {
	walk(h, words, func(key, value string) {
		h.text(key)
		h.text(value)
	})
}

func (h *hasher) resources(r api.Resources) {
	h.number(uint64(len(r.Items())))
	for _, item := range r.Items() {
		h.text(item.Name)
		h.text(string(item.Reserved))
		h.flag(item.Dynamic)
		h.text(string(item.Volume))
		h.flag(item.Revocable)
		h.signed(int64(item.Scalar))
		h.number(uint64(len(item.Ranges)))
		for _, one := range item.Ranges {
			h.number(one.Begin)
			h.number(one.End)
		}
		h.number(uint64(len(item.Set)))
		for _, word := range item.Set {
			h.text(word)
		}
	}
}
