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
)

// VersionLabel is a label of each service's task: what it runs. [Set.Roll] knows by it, also after a
// takeover, which tasks are replaced already. It is a sum of the item's task; who names his
// versions sets the label himself.
const VersionLabel = "taskset.version"

// versionOf names what the item runs.
func versionOf(one Item) string {
	task := one.Task
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

// labelled is the task with its version.
func labelled(task api.Task, version string) api.Task {
	task.Labels = maps.Clone(task.Labels)
	if task.Labels == nil {
		task.Labels = make(map[string]string, 1)
	}
	task.Labels[VersionLabel] = version
	return task
}

// service is what Scale keeps: n items, named NAME-0 to NAME-(n-1).
type service struct {
	name string
	like Item
	n    int
	roll *roll // the latest rolling change; nil: there was none

	survey survey // of its items, while it changes
}

func (v *service) id(number int) string { return fmt.Sprintf("%s-%d", v.name, number) }

// Scale keeps n tasks like this one running: services named NAME-0 to NAME-(n-1), of
// the group NAME unless the item names one. Of a larger number before, the highest are
// killed. Those that run stay as they are; see [Set.Roll].
func (s *Set) Scale(name string, like Item, n int) error {
	if err := s.join(context.Background(), like.Role); err != nil {
		return err
	}
	like = likeOf(name, like)
	var err error
	scaled := change{
		check: func() error { return s.state.rollouts.checkScale(name, like, n) },
		key:   serviceKeys + name,
		value: func() (kept, error) { return s.state.rollouts.keepScaled(name, like, n) },
		work:  func(now time.Time) { err = s.state.rollouts.scale(name, like, n, now) },
	}
	if n <= 0 {
		scaled.value = nil
	}
	made := s.make(scaled) // sets err
	return errors.Join(made, err)
}

// checkScale refuses what is wrong before it is kept in the store.
func (o *rollouts) checkScale(name string, like Item, n int) error {
	if o.state.config.Keep == "" || n <= 0 {
		return nil
	}
	if err := api.CheckID("service", name); err != nil {
		return api.E("taskset.scale", api.Invalid, name, err)
	}
	if err := errors.Join(o.state.waiting.checkRole(like), o.state.checkTask(named(name, like))); err != nil {
		return api.E("taskset.scale", api.Invalid, name, err)
	}
	return nil
}

// named is the item with an ID, as its check wants it.
func named(name string, like Item) Item {
	like.ID = name + "-0"
	return like
}

func (o *rollouts) keepScaled(name string, like Item, n int) (kept, error) {
	scaled := service{name: name, like: like, n: n}
	if v := o.services[name]; v != nil {
		scaled.roll = v.roll
	}
	return keepService(&scaled)
}

// likeOf is the item that all of the service are like, without a number.
func likeOf(name string, like Item) Item {
	if like.Group == "" {
		like.Group = name
	}
	like.ID, like.Service = "", true
	return like
}

func (o *rollouts) scale(name string, like Item, n int, now time.Time) error {
	v := o.services[name]
	if v == nil {
		v = &service{name: name}
		o.services[name] = v
	}
	before := v.n
	v.like, v.n = like, n
	var faults []error
	for i := range n {
		like.ID = v.id(i)
		if o.state.items[like.ID] != nil {
			continue
		}
		if err := o.state.check(like); err != nil {
			faults = append(faults, err)
			continue
		}
		it := o.state.add(like, now)
		it.service, it.place = v, i
		o.touch(it)
	}
	for i := n; i < before; i++ {
		if it := o.state.items[v.id(i)]; it != nil {
			o.state.drop(it)
		}
	}
	if n <= 0 {
		delete(o.services, name)
		delete(o.rolling, name)
	}
	return errors.Join(faults...)
}

// Service is what Scale keeps.
type Service struct {
	Name string
	// Like is what new ones of it are.
	Like  Item
	Count int
	// Rolling is the latest change by Roll; nil: there was none.
	Rolling *Progress
}

// Services lists what Scale keeps, by name.
func (s *Set) Services() []Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	var services []Service
	for _, name := range slices.Sorted(maps.Keys(s.state.rollouts.services)) {
		v := s.state.rollouts.services[name]
		services = append(services, Service{Name: name, Like: v.like, Count: v.n, Rolling: s.state.rollouts.progress(v)})
	}
	return services
}
