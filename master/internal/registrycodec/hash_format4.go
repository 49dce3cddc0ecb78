package registrycodec

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

// hashOfFormat4 computes the hash of a registry up to format 4. Masters that know no newer format compute it in this
// way and compare it with ours. It is frozen: no field that was added later is in it. It can be removed when no master
// that we may meet writes format 4 any more (R24).
func hashOfFormat4(s *registry.State) string {
	h := hasherOfFormat4{Hash: sha256.New(), format: max(s.Format, 1)}
	h.put("tender registry", h.format, s.Cluster, s.Epoch, s.NextAgent, s.NextFramework)
	if h.format >= registry.FormatBounded {
		h.put(s.LostAgents, s.LostFrameworks)
	}
	putMap(&h, s.Masters, func(id api.MasterID, m registry.Master) {
		h.put(id, m.GRPC, m.HTTP, m.Raft, m.Version, m.Allocator)
	})
	putMap(&h, s.Agents, h.agent)
	putMap(&h, s.Frameworks, h.framework)
	putMap(&h, s.Roles, func(role api.Role, set registry.Role) {
		h.put(role, math.Float64bits(set.Weight), int64(set.Priority), set.Guarantee, set.Limit)
	})
	putMap(&h, s.Clients, h.client)
	h.flush()
	return hex.EncodeToString(h.Sum(nil))
}

// hasherOfFormat4 writes one value after the other, each after its length if it has one.
type hasherOfFormat4 struct {
	hash.Hash
	buffer []byte
	format uint64
}

func (h *hasherOfFormat4) flush() {
	h.Write(h.buffer)
	h.buffer = h.buffer[:0]
}

func (h *hasherOfFormat4) number(n uint64) {
	h.buffer = binary.AppendUvarint(h.buffer, n)
	if len(h.buffer) >= hashedAtOnceBytes {
		h.flush()
	}
}

// put writes values of the types that a registry consists of.
func (h *hasherOfFormat4) put(values ...any) {
	for _, value := range values {
		switch v := value.(type) {
		case time.Time:
			h.put(v.Unix(), int64(v.Nanosecond()))
		case map[string]string:
			putMap(h, v, func(key, word string) { h.put(key, word) })
		case []byte:
			h.number(uint64(len(v)))
			h.buffer = append(h.buffer, v...)
		case []registry.Numbers:
			h.number(uint64(len(v)))
			for _, one := range v {
				h.put(one.First, one.Next)
			}
		case api.Resources:
			h.number(uint64(len(v.Items())))
			for _, item := range v.Items() {
				h.resource(item)
			}
		default:
			h.plain(reflect.ValueOf(value))
		}
	}
}

func (h *hasherOfFormat4) plain(v reflect.Value) {
	switch {
	case v.Kind() == reflect.String:
		h.number(uint64(v.Len()))
		h.buffer = append(h.buffer, v.String()...)
	case v.Kind() == reflect.Bool && v.Bool():
		h.number(1)
	case v.Kind() == reflect.Bool:
		h.number(0)
	case v.CanInt():
		h.number(uint64(v.Int()))
	default:
		h.number(v.Uint())
	}
}

// putMap writes a map in the order of its keys.
func putMap[K cmp.Ordered, V any](h *hasherOfFormat4, m map[K]V, value func(K, V)) {
	h.number(uint64(len(m)))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		value(key, m[key])
	}
}

func (h *hasherOfFormat4) agent(_ api.AgentID, a registry.Agent) {
	h.put(a.Agent.ID, a.Agent.Hostname, a.Agent.Region, a.Agent.Zone, a.Agent.Address, a.Agent.Version, a.Nonce, a.BootID, a.Why,
		a.Agent.Resources, a.Agent.Attributes, a.Marks, a.Grace, a.Admitted, a.Reserved)
	if h.format >= registry.FormatMaintenance {
		h.put(a.Maintenance.Start, a.Maintenance.Duration, a.Maintained)
	}
	if h.format >= registry.FormatBounded {
		h.put(a.Gone)
	}
}

func (h *hasherOfFormat4) framework(_ api.FrameworkID, f registry.Framework) {
	info := f.Framework
	h.put(info.ID, info.Name, info.Principal, info.Constraint, len(info.Roles))
	for _, role := range info.Roles {
		h.put(role)
	}
	h.put(info.FailoverTimeout, info.Standby, info.Revocable, info.MinOffer, info.MaxOffer, info.Labels, info.Endpoints,
		f.Instance, f.Session, f.Admitted, f.Removed, f.Why, f.StoreSize, f.StoreVersion)
	putMap(h, f.Store, func(key string, entry registry.Entry) { h.put(key, entry.Value, entry.Version) })
	if h.format >= registry.FormatOperations {
		h.put(len(f.Operations))
		for _, operation := range f.Operations {
			h.put(operation.ID, operation.Agent)
		}
	}
}

func (h *hasherOfFormat4) client(name string, c registry.Client) {
	h.put(name, c.Counter, c.Seen, c.Result.Agent, c.Result.Framework, c.Result.Session, c.Result.Version, c.Result.Err != nil)
	if err := c.Result.Err; err != nil {
		h.put(err.Op, err.Kind, err.Subject, err.Err != nil)
		if err.Err != nil {
			h.put(err.Err.Error())
		}
	}
}

func (h *hasherOfFormat4) resource(item api.Resource) {
	h.put(item.Name, item.Reserved, item.Dynamic, item.Volume, item.Revocable, item.Scalar, len(item.Ranges))
	for _, one := range item.Ranges {
		h.put(one.Begin, one.End)
	}
	h.put(len(item.Set))
	for _, word := range item.Set {
		h.put(word)
	}
}
