package taskset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/locality"
	"github.com/tenderhq/tender/internal/wire"
)

// kept is what the store holds of an item, or of a service with its count.
type kept struct {
	Item    keptItem  `json:"item"`
	Count   int       `json:"count,omitempty"`
	Rolling *keptRoll `json:"rolling,omitempty"`
}

type keptItem struct {
	Group    string          `json:"group,omitempty"`
	Role     api.Role        `json:"role,omitempty"`
	Prefer   locality.Prefer `json:"prefer,omitzero"`
	Priority int             `json:"priority,omitempty"`
	Service  bool            `json:"service,omitempty"`
	Task     json.RawMessage `json:"task"` // the protobuf message of api/v1, as JSON
}

// keptRoll is a rolling change that is not done.
type keptRoll struct {
	Rolling
	To      keptItem `json:"to"`
	Stopped bool     `json:"stopped,omitempty"`
	Why     string   `json:"why,omitempty"`
	Undoes  bool     `json:"undoes,omitempty"` // it undoes a change that has stopped
}

// The keys under Config.Keep.
const (
	itemKeys    = "item/"
	serviceKeys = "service/"
)

func keepItem(item Item) (keptItem, error) {
	task, err := protojson.Marshal(wire.TaskToProto(item.Task))
	return keptItem{Group: item.Group, Role: item.Role, Prefer: item.Prefer, Priority: item.Priority, Service: item.Service, Task: task}, err
}

func (k keptItem) restoreItem() (Item, error) {
	var task apiv1.Task
	err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(k.Task, &task)
	return Item{Group: k.Group, Role: k.Role, Prefer: k.Prefer, Priority: k.Priority, Service: k.Service, Task: wire.TaskFromProto(&task)}, err
}

// keepAlone returns what the store must hold of an item that belongs to no service.
func keepAlone(item Item) (*kept, error) {
	single, err := keepItem(item)
	return &kept{Item: single}, err
}

// keepService returns what the store must hold of a service.
func keepService(v *service) (k *kept, err error) {
	k = &kept{Count: v.n}
	if k.Item, err = keepItem(v.like); err != nil {
		return k, err
	}
	if r := v.roll; r != nil && r.end != rollDone {
		k.Rolling = &keptRoll{Rolling: r.Rolling, Stopped: r.end == rollStopped, Why: r.why, Undoes: r.back}
		k.Rolling.To, err = keepItem(r.to)
	}
	return k, err
}

var (
	errNotLoaded = errors.New("the set's items are kept in the store, which it has from its first session on; " +
		"change it by Config.Loaded or later")
	errUntold   = errors.New("another goroutine is telling the end of the item")
	errPrefixes = errors.New("the prefixes of Keep and Remember must be two, neither below the other")
)

// change is a change of the set that is kept in the store.
type change struct {
	check func() error          // returns why the change can't be made; nil if it can
	key   string                // the key in the store
	value func() (*kept, error) // nil: the key is deleted
	work  func(now time.Time)
}

// makeChanges makes changes to the set, each one completely or not at all. With Config.Keep a change is written to the store
// before it is made in the set.
func (s *Set) makeChanges(ctx context.Context, changes ...change) error {
	var faults []error
	if s.config.Keep == "" {
		s.runWork(func(now time.Time) {
			for _, change := range changes {
				if err := change.check(); err != nil {
					faults = append(faults, err)
					continue
				}
				change.work(now)
			}
		})
		return errors.Join(faults...)
	}
	defer s.tellEnds()
	done, err := s.lockStore(ctx)
	if err != nil {
		return err
	}
	defer done()
	if s.loadedStore() == nil {
		return api.E("taskset.keep", api.Unavailable, s.config.Keep, errNotLoaded)
	}
	for _, change := range changes {
		if err := s.makeKept(ctx, change); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

func (s *Set) loadedStore() *framework.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.loaded {
		return nil
	}
	return s.store
}

// lockStore waits until nobody else changes the store. It returns a function to call at the end.
func (s *Set) lockStore(ctx context.Context) (done func(), err error) {
	select {
	case s.writing <- struct{}{}:
		return func() { <-s.writing }, nil
	case <-ctx.Done():
		return nil, api.E("taskset.keep", api.Unavailable, s.config.Keep, fmt.Errorf("another change is being kept: %w", ctx.Err()))
	}
}

func (s *Set) makeKept(ctx context.Context, change change) error {
	s.mu.Lock()
	err := change.check()
	var value *kept
	if err == nil && change.value != nil {
		value, err = change.value()
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	switch err = s.writeKept(ctx, change.key, value); {
	case err == nil:
		s.runLocked(change.work)
	case ctx.Err() != nil: // the store may have taken it all the same; it is made to hold what the set has
		s.runLocked(func(now time.Time) {
			s.state.noteChange(change.key)
			s.state.alarms.Add(now, func(time.Time) {})
		})
	}
	return err
}

// writeKept has the store hold the value under the key; nil: nothing.
func (s *Set) writeKept(ctx context.Context, key string, value *kept) error {
	if value == nil {
		return s.deleteKey(ctx, s.config.Keep+"/"+key)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = s.store.Put(ctx, s.config.Keep+"/"+key, text, framework.AnyVersion)
	return err
}

// deleteKey deletes a key of the store.
func (s *Set) deleteKey(ctx context.Context, key string) error {
	err := s.store.Delete(ctx, key, framework.AnyVersion)
	if api.Is(err, api.NotFound) {
		return nil // it was deleted before
	}
	return err
}

// flushStore writes to the store what has changed by itself: items that have ended, and rolling changes that are done or
// have stopped.
func (s *Set) flushStore(ctx context.Context) error {
	if s.config.Keep == "" {
		return nil
	}
	done, err := s.lockStore(ctx)
	if err != nil {
		return err
	}
	defer done()
	for {
		s.mu.Lock()
		if len(s.state.unsaved) == 0 {
			s.mu.Unlock()
			return nil
		}
		key := s.state.unsaved[0]
		value, err := s.state.keptUnder(key)
		s.mu.Unlock()
		if err == nil {
			err = s.writeKept(ctx, key, value)
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.state.unsaved = s.state.unsaved[1:]
		s.mu.Unlock()
	}
}

// keptUnder returns what the store must hold under the key; nil: nothing. Items of services are not kept one by one.
func (s *state) keptUnder(key string) (value *kept, err error) {
	id, single := strings.CutPrefix(key, itemKeys)
	if single {
		if it := s.items[id]; it != nil && it.service == nil { // another of this ID was added meanwhile, or it was not removed after all
			value, err = keepAlone(it.Item)
		}
	} else if v := s.rollouts.services[strings.TrimPrefix(key, serviceKeys)]; v != nil {
		value, err = keepService(v)
	}
	return value, err
}

// noteChange notes that the value of the key has changed and must be written to the store.
func (s *state) noteChange(key string) {
	if s.config.Keep != "" {
		s.unsaved = append(s.unsaved, key)
	}
}

// endKept makes sure that the end of an item is in the store before the item's status is acknowledged.
func (s *Set) endKept(ctx context.Context, id string) error {
	if s.config.Keep == "" {
		return nil
	}
	s.mu.Lock()
	untold := slices.ContainsFunc(s.state.ended, func(o Outcome) bool { return o.Item == id })
	s.mu.Unlock()
	if untold {
		return api.E("taskset.keep", api.Unavailable, id, errUntold)
	}
	return s.flushStore(ctx)
}

// loadKept takes the items of the store into the set.
func (s *Set) loadKept(ctx context.Context) error {
	const op = "taskset.load"
	prefix := s.config.Keep + "/"
	if other := s.config.Remember + "/"; s.config.Remember != "" && (strings.HasPrefix(prefix, other) || strings.HasPrefix(other, prefix)) {
		return api.E(op, api.Invalid, s.config.Keep, errPrefixes)
	}
	entries, err := s.store.List(ctx, prefix)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b framework.Entry) int { return cmp.Compare(a.Version, b.Version) })
	var works []func(now time.Time) error
	var roles []api.Role
	for _, entry := range entries {
		key := strings.TrimPrefix(entry.Key, prefix)
		work, role, err := s.loadOne(key, entry.Value)
		if err != nil {
			return api.E(op, api.Invalid, entry.Key, fmt.Errorf("this is nothing that a set has kept: %w", err))
		}
		works, roles = append(works, work), append(roles, role)
	}
	if err := s.joinRoles(ctx, roles...); err != nil {
		return err
	}
	var faults []error
	s.runWork(func(now time.Time) {
		for _, work := range works {
			faults = append(faults, work(now))
		}
		s.loaded = true
	})
	return errors.Join(faults...)
}

// loadOne reads an entry of the store and returns the work that takes it into the set.
func (s *Set) loadOne(key string, value []byte) (work func(now time.Time) error, role api.Role, err error) {
	var k kept
	if err := json.Unmarshal(value, &k); err != nil {
		return nil, "", err
	}
	item, err := k.Item.restoreItem()
	if err != nil {
		return nil, "", err
	}
	if id, is := strings.CutPrefix(key, itemKeys); is {
		item.ID = id
		return func(now time.Time) error {
			if s.state.items[id] != nil {
				return nil // an earlier call of load took it over
			}
			if err := s.state.checkItem(item); err != nil {
				return err
			}
			s.state.addItem(item, now)
			return nil
		}, item.Role, nil
	}
	name, is := strings.CutPrefix(key, serviceKeys)
	if !is {
		return nil, "", fmt.Errorf("its key begins neither with %s nor with %s", itemKeys, serviceKeys)
	}
	var to Item
	if k.Rolling != nil {
		if to, err = k.Rolling.To.restoreItem(); err != nil {
			return nil, "", err
		}
	}
	return func(now time.Time) error { return s.state.rollouts.loadService(name, item, to, k, now) }, item.Role, nil
}

// loadService restores a service, with its rolling change.
func (o *rollouts) loadService(name string, like, to Item, k kept, now time.Time) error {
	if err := o.scaleService(name, like, k.Count, now); err != nil || k.Rolling == nil {
		return err
	}
	r := newRoll(o.services[name], to, k.Rolling.Rolling)
	if r.why, r.back = k.Rolling.Why, k.Rolling.Undoes; k.Rolling.Stopped {
		r.end = rollStopped
		o.services[name].roll = r
		return nil
	}
	o.beginRoll(r)
	return nil
}

// takeOver lets the items of a stopped change keep the new version, if that is what they run.
func (o *rollouts) takeOver() {
	for _, v := range o.services { // order: irrelevant because each is judged by itself
		if v.roll == nil || v.roll.end != rollStopped {
			continue
		}
		for i := range v.n {
			if it := o.state.items[v.itemID(i)]; it != nil && it.newestUp(v.roll.version) != nil && !it.runsOld(v.roll) {
				o.changeItem(it, v.roll.to)
			}
		}
	}
}
