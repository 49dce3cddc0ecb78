package names

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/master/registry"
)

const (
	// zoneAgeMax is how old an answer may be; for as long again whoever has asked may keep it.
	zoneAgeMax = 5 * time.Second
	// zoneStaleMax is how long what was read last is told while no leader answers.
	zoneStaleMax = time.Minute
	// directoryAgeMax is how long a change of the registry may take to be seen.
	directoryAgeMax = time.Second
	// readTimeout bounds the wait for the leader.
	readTimeout = 2 * time.Second
	// retryAfter is how long the leader is not asked again that has failed to answer: what is kept is told at once, or that
	// there is nothing.
	retryAfter = time.Second
	// zonesMax bounds the labels whose endpoints are kept. One more: the oldest is dropped, and read again when it is asked
	// for.
	zonesMax = 1024
	// endpointsMax bounds the endpoints of one label. Those beyond are not told.
	endpointsMax = 10_000
)

// cache keeps what was read of the source for a moment: however many ask, the leader is asked but seldom.
type cache struct {
	source Source
	life   context.Context
	reads  sync.WaitGroup

	mutex     sync.Mutex
	directory *directory
	looked    time.Time // at the registry
	slots     map[string]*slot
}

// slot is what is kept of the frameworks of one label.
type slot struct {
	zone    *zone         // nil: none was read
	err     error         // of the last reading
	ended   time.Time     // when that was
	reading chan struct{} // closed when the reading ends; nil: nobody reads
}

// newCache reads until life ends.
func newCache(life context.Context, source Source) *cache {
	return &cache{source: source, life: life, slots: map[string]*slot{}}
}

// known is which frameworks and agents there are.
func (c *cache) known() *directory {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	now := time.Now()
	if c.directory == nil || now.Sub(c.looked) >= directoryAgeMax && c.source.Index() != c.directory.index {
		c.looked = now
		c.source.Registry(func(state *registry.State) { c.directory = newDirectory(state) })
	}
	return c.directory
}

// find is what is known of the frameworks of a label; nil, nil: there are none. An error says that nobody knows.
func (c *cache) find(ctx context.Context, label string) (*zone, error) {
	of := c.known().frameworks[label]
	if len(of) == 0 {
		return nil, nil
	}
	s, reading := c.slot(label, of)
	if reading != nil {
		select {
		case <-reading:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if s.tells(of) {
		return s.zone, nil
	}
	return nil, s.err
}

// tells says whether what was read last may be told.
func (s *slot) tells(of []api.FrameworkID) bool {
	return s.zone != nil && slices.Equal(s.zone.of, of) && time.Since(s.zone.read) <= zoneStaleMax
}

// slot is that of the label, and what ends the reading that is to be waited for; nil: none is.
func (c *cache) slot(label string, of []api.FrameworkID) (*slot, <-chan struct{}) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	s := c.slots[label]
	if s == nil {
		s = &slot{}
		c.dropOldest()
		c.slots[label] = s
	}
	fresh := s.tells(of) && time.Since(s.zone.read) < zoneAgeMax
	if s.reading == nil && !fresh && (s.err == nil || time.Since(s.ended) >= retryAfter) {
		s.reading = make(chan struct{})
		c.reads.Go(func() { c.read(s, of) })
	}
	if fresh {
		return s, nil
	}
	return s, s.reading
}

// dropOldest makes room for one more.
func (c *cache) dropOldest() {
	if len(c.slots) < zonesMax {
		return
	}
	oldest := ""
	for label, s := range c.slots { // order: irrelevant because of equally old ones any may go
		if oldest == "" || s.ended.Before(c.slots[oldest].ended) {
			oldest = label
		}
	}
	delete(c.slots, oldest)
}

// read reads the tasks of some frameworks into their slot.
func (c *cache) read(s *slot, of []api.FrameworkID) {
	ctx, cancel := context.WithTimeout(c.life, readTimeout)
	defer cancel()
	z, err := newZone(of, time.Now()), error(nil)
	for _, framework := range of {
		if err == nil {
			err = c.source.eachTask(ctx, framework, func(task *apiv1.TaskView) bool { z.add(task); return !z.full })
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	s.err, s.ended = err, time.Now()
	if err == nil {
		s.zone = z
	}
	close(s.reading)
	s.reading = nil
}
