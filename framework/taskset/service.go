package taskset

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/internal/work"
)

// VersionLabel is the label of each task of a service that names the version that it runs. By this label [Set.Roll]
// knows, also after a takeover, which tasks it has replaced already. The set computes it from the item's task. To name
// versions yourself, set the label in the task.
const VersionLabel = "taskset.version"

// versionOf returns the version that the item runs.
func versionOf(item Item) string {
	task := item.Task
	if version := task.Labels[VersionLabel]; version != "" {
		return version
	}
	task.ID, task.Group, task.Placement = "", "", api.Placement{}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(wire.TaskToProto(task))
	if err != nil {
		return "" // a message in memory can always be written
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))[:12]
}

// labelTask returns the task with its version as a label.
func labelTask(task api.Task, version string) api.Task {
	task.Labels = maps.Clone(task.Labels)
	if task.Labels == nil {
		task.Labels = make(map[string]string, 1)
	}
	task.Labels[VersionLabel] = version
	return task
}

// service is what Scale keeps running: n items, named NAME-0 to NAME-(n-1).
type service struct {
	name string
	like Item
	n    int
	roll *roll // the latest rolling change; nil: there was none

	survey work.Survey // what is known of its items while it changes
}

func (v *service) itemID(number int) string { return fmt.Sprintf("%s-%d", v.name, number) }

// Scale keeps n tasks like this one running: services named NAME-0 to NAME-(n-1), of the group NAME unless the item
// names a group. If there were more before, those with the highest numbers are killed. Tasks that run stay as they are;
// to change them use [Set.Roll].
func (s *Set) Scale(ctx context.Context, name string, like Item, n int) error {
	if err := s.joinRoles(ctx, like.Role); err != nil {
		return err
	}
	like = likeOf(name, like)
	var err error
	scaled := change{
		check: func() error { return s.state.rollouts.checkScale(name, like, n) },
		key:   serviceKeys + name,
		value: func() (*kept, error) { return s.state.rollouts.keepScaled(name, like, n) },
		work:  func(now time.Time) { err = s.state.rollouts.scaleService(name, like, n, now) },
	}
	if n <= 0 {
		scaled.value = nil
	}
	made := s.makeChanges(ctx, scaled) // sets err
	return errors.Join(made, err)
}

// checkScale refuses a wrong call before it is kept in the store.
func (o *rollouts) checkScale(name string, like Item, n int) error {
	for i := range n {
		id := (&service{name: name}).itemID(i)
		if it := o.state.items[id]; it != nil && (it.service == nil || it.service != o.services[name]) {
			return api.E("taskset.scale", api.Exists, name, fmt.Errorf("the set has an item %s that is none of this service; remove it first, or choose another name", id))
		}
	}
	if o.state.config.Keep == "" || n <= 0 {
		return nil
	}
	if err := api.CheckID("service", name); err != nil {
		return api.E("taskset.scale", api.Invalid, name, err)
	}
	if err := errors.Join(o.state.waiting.checkRole(like), o.state.checkTask(nameItem(name, like))); err != nil {
		return api.E("taskset.scale", api.Invalid, name, err)
	}
	return nil
}

// nameItem returns the item with an ID, as its check needs one.
func nameItem(name string, like Item) Item {
	like.ID = name + "-0"
	return like
}

func (o *rollouts) keepScaled(name string, like Item, n int) (*kept, error) {
	scaled := service{name: name, like: like, n: n}
	if v := o.services[name]; v != nil {
		scaled.roll = v.roll
	}
	return keepService(&scaled)
}

// likeOf returns the item, without a number, from which all items of the service are made.
func likeOf(name string, like Item) Item {
	if like.Group == "" {
		like.Group = name
	}
	like.ID, like.Service = "", true
	return like
}

func (o *rollouts) scaleService(name string, like Item, n int, now time.Time) error {
	v := o.services[name]
	if v == nil {
		v = &service{name: name}
		o.services[name] = v
	}
	before := v.n
	v.like, v.n = like, n
	var faults []error
	for i := range n {
		like.ID = v.itemID(i)
		if o.state.items[like.ID] != nil {
			continue
		}
		if err := o.state.checkItem(like); err != nil {
			faults = append(faults, err)
			continue
		}
		it := o.state.addItem(like, now)
		it.service, it.place = v, i
		o.touchItem(it)
	}
	for i := n; i < before; i++ {
		if it := o.state.items[v.itemID(i)]; it != nil {
			o.state.dropItem(it)
		}
	}
	if n <= 0 {
		delete(o.services, name)
		delete(o.rolling, name)
	}
	return errors.Join(faults...)
}

// Service describes a service that Scale keeps running.
type Service struct {
	Name string
	// Like is the item from which new items of the service are made.
	Like  Item
	Count int
	// Rolling is the latest change by Roll; nil: there was none.
	Rolling *Progress
}

// Services lists the services that Scale keeps running, by name.
func (s *Set) Services() []Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	var services []Service
	for _, name := range slices.Sorted(maps.Keys(s.state.rollouts.services)) {
		v := s.state.rollouts.services[name]
		services = append(services, Service{Name: name, Like: v.like, Count: v.n, Rolling: s.state.rollouts.progressOf(v)})
	}
	return services
}
