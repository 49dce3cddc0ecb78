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
	// KeepFree is how much of each bound must be free after a write that needs more room, in percent. So a framework
	// can refuse new work while there is still room for what ends the old.
	KeepFree uint64
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
	if change.KeepFree > 100 {
		return refuse(op, api.Invalid, change.Key, "%d percent are to be kept free; write 0 to 100", change.KeepFree)
	}
	if err := s.checkStore(framework, exists, growth, change); err != nil {
		return Result{Err: api.E(op, api.Limit, change.Key, err), Version: old.Version}
	}
	framework.StoreVersion++
	framework.StoreSize += growth
	s.store(&framework)[change.Key] = Entry{Value: change.Value, Version: framework.StoreVersion}
	s.replace(framework)
	return Result{Version: framework.StoreVersion}
}

func (change PutEntry) saw() sight {
	return sawSession{"store.put", change.Framework, change.Session} // and IfVersion, if the writer names one
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

func (change DeleteEntry) saw() sight {
	return sawSession{"store.delete", change.Framework, change.Session} // and IfVersion, if the writer names one
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

// checkStore returns why a change for which the framework's store grows by so many bytes finds no room, or nil.
func (s *State) checkStore(framework Framework, exists bool, growth int64, change PutEntry) error {
	all := int64(change.AllMax)
	if change.AllMax == 0 || change.AllMax > StoreBytesMax {
		all = StoreBytesMax
	}
	principal := framework.Framework.Principal
	own, share, entries := change.without(StoreFrameworkBytesMax), change.without(principalsShare(all)), change.without(StoreEntriesMax)
	all = change.without(all)
	has := s.index().living[principal].storeSize
	kept := ""
	if change.KeepFree > 0 {
		kept = fmt.Sprintf(" (%d %% are kept free)", change.KeepFree)
	}
	switch {
	case growth > 0 && framework.StoreSize+growth > own:
		return fmt.Errorf("the framework's store would hold more than %d bytes%s; delete what it needs no more", own, kept)
	case growth > 0 && s.index().storeSize+growth > all:
		return fmt.Errorf("the stores of all frameworks would hold more than %d bytes%s; delete what nobody needs, or start the masters with a larger --store-bytes-max",
			all, kept)
	case growth > 0 && isBounded(principal) && has+growth > share:
		return fmt.Errorf("the stores of the frameworks of principal %q hold %d bytes, and may hold %d%s, so that there is room for others; "+
			"delete what they need no more", principal, has, share, kept)
	case !exists && int64(len(framework.Store)) >= entries:
		return fmt.Errorf("the framework's store would hold more than %d keys%s", entries, kept)
	}
	return nil
}

// without returns a bound without what the write has to keep free.
func (change PutEntry) without(bound int64) int64 { return bound - bound*int64(change.KeepFree)/100 }

// StoreBytes returns how many bytes all stores hold.
func (s *State) StoreBytes() int64 { return s.index().storeSize }
