package registry

import (
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tenderhq/tender/api"
)

// StoreClient returns the name under which an instance's store writes are remembered (R17). The lane is below
// api.StoreLanesMax.
func StoreClient(instance api.Nonce, lane uint32) string {
	name := "instance/" + string(instance)
	if lane > 0 {
		name += "/" + strconv.FormatUint(uint64(lane), 10)
	}
	return name
}

// PutEntry writes a key of a framework's store. IfVersion nil means whatever version the key has.
type PutEntry struct {
	Framework api.FrameworkID
	Session   uint64
	Key       string
	Value     []byte
	IfVersion *uint64
	// AllMax is how many bytes all stores may hold together, as the proposer was configured. It is part of the change
	// so that every master decides in the same way. 0 means StoreBytesMax.
	AllMax uint64
}

func (change PutEntry) apply(s *State, _ time.Time) Result {
	const op = "store.put"
	framework, bad := s.framework(op, change.Framework, change.Session)
	if bad != nil {
		return *bad
	}
	if err := checkEntry(change.Key, change.Value); err != nil {
		return Result{Err: api.E(op, api.Invalid, change.Key, err)}
	}
	old, exists := framework.Store[change.Key]
	if bad := checkVersion(op, change.Key, change.IfVersion, old); bad != nil {
		return *bad
	}
	growth := int64(len(change.Value) - len(old.Value))
	if !exists {
		growth += int64(len(change.Key))
	}
	if err := s.checkStore(framework, exists, growth, change.AllMax); err != nil {
		return Result{Err: api.E(op, api.Limit, change.Key, err), Version: old.Version}
	}
	framework.StoreVersion++
	framework.StoreSize += growth
	s.store(&framework)[change.Key] = Entry{Value: change.Value, Version: framework.StoreVersion}
	s.replace(framework)
	return Result{Version: framework.StoreVersion}
}

func (PutEntry) onlyKept() {}

// DeleteEntry deletes a key of a framework's store.
type DeleteEntry struct {
	Framework api.FrameworkID
	Session   uint64
	Key       string
	IfVersion *uint64
}

// apply deletes a key. A key that does not exist is not an error; then the version is 0.
func (change DeleteEntry) apply(s *State, _ time.Time) Result {
	const op = "store.delete"
	framework, bad := s.framework(op, change.Framework, change.Session)
	if bad != nil {
		return *bad
	}
	old, exists := framework.Store[change.Key]
	if bad := checkVersion(op, change.Key, change.IfVersion, old); bad != nil {
		return *bad
	}
	if !exists {
		return Result{}
	}
	framework.StoreVersion++
	framework.StoreSize -= int64(len(change.Key) + len(old.Value))
	delete(s.store(&framework), change.Key)
	s.replace(framework)
	return Result{Version: framework.StoreVersion}
}

func (DeleteEntry) onlyKept() {}

func checkEntry(key string, value []byte) error {
	switch {
	case key == "":
		return errors.New("the key is empty")
	case len(key) > StoreKeyBytesMax:
		return fmt.Errorf("the key has %d bytes, at most %d are allowed", len(key), StoreKeyBytesMax)
	case !utf8.ValidString(key):
		return errors.New("the key is not valid UTF-8")
	case len(value) > StoreValueBytesMax:
		return fmt.Errorf("the value has %d bytes, at most %d are allowed", len(value), StoreValueBytesMax)
	}
	return nil
}

// checkVersion refuses a write that expected another version. The result tells the present one.
func checkVersion(op, key string, want *uint64, old Entry) *Result {
	if want == nil || *want == old.Version {
		return nil
	}
	bad := refuse(op, api.Stale, key, "it has version %d, not %d", old.Version, *want)
	bad.Version = old.Version
	return &bad
}

func (s *State) checkStore(framework Framework, exists bool, growth int64, allMax uint64) error {
	if allMax == 0 || allMax > StoreBytesMax {
		allMax = StoreBytesMax
	}
	principal := framework.Framework.Principal
	has := s.index().living[principal].storeSize
	switch {
	case growth > 0 && framework.StoreSize+growth > StoreFrameworkBytesMax:
		return fmt.Errorf("the framework's store would hold more than %d bytes; delete what it needs no more", StoreFrameworkBytesMax)
	case growth > 0 && s.index().storeSize+growth > int64(allMax):
		return fmt.Errorf("the stores of all frameworks would hold more than %d bytes; delete what nobody needs, or start the masters with a larger --store-bytes-max", allMax)
	case growth > 0 && isBounded(principal) && has+growth > principalsShare(int64(allMax)):
		return fmt.Errorf("the stores of the frameworks of principal %q hold %d bytes, and may hold %d, so that there is room for others; "+
			"delete what they need no more", principal, has, principalsShare(int64(allMax)))
	case !exists && len(framework.Store) >= StoreEntriesMax:
		return fmt.Errorf("the framework's store would hold more than %d keys", StoreEntriesMax)
	}
	return nil
}

// StoreBytes returns how many bytes all stores hold.
func (s *State) StoreBytes() int64 { return s.index().storeSize }
