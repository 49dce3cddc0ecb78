package names

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/master/registry"
)

const (
	// zoneAgeMax is how old a zone may be before it is read again. A resolver may keep an answer for as long again.
	zoneAgeMax = 5 * time.Second
	// zoneStaleMax is how old a zone may be at most that is told while no leader answers.
	zoneStaleMax = time.Minute
	// directoryAgeMax is how long it may take until a change of the registry is seen.
	directoryAgeMax = time.Second
	// readTimeout is how long a reading waits for the leader.
	readTimeout = 2 * time.Second
	// retryAfter is how long the leader is not asked again after it has failed to answer. Until then questions are
	// answered at once, by what is kept, or else with SERVFAIL.
	retryAfter = time.Second
	// zonesMax is how many labels have their zones kept. For one more the oldest is dropped, and read again when it is
	// asked for.
	zonesMax = 1024
	// endpointsMax is how many endpoints of one label are kept. More are not told.
	endpointsMax = 10_000
)

// cache keeps for a while what was read from the source, so that the leader is asked rarely, however many questions
// come.
type cache struct {
	source Source
	life   context.Context
	reads  sync.WaitGroup

	mutex     sync.Mutex
	directory *directory
	looked    time.Time // when the registry was read last
	slots     map[string]*slot
}

// slot is the place of one label's zone in the cache.
type slot struct {
	zone    *zone         // nil: none was read
	err     error         // the error of the last reading
	ended   time.Time     // when the last reading ended
	reading chan struct{} // closed when the reading ends; nil: none is under way
}

// newCache returns an empty cache, whose readings end with life.
func newCache(life context.Context, source Source) *cache {
	return &cache{source: source, life: life, slots: map[string]*slot{}}
}

// known returns which frameworks and agents there are.
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

// find returns the zone of the frameworks of a label; nil without an error if there are none. An error says that the
// zone could not be read.
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

// tells reports whether the zone that was read last is of these frameworks, and not too old to be told.
func (s *slot) tells(of []api.FrameworkID) bool {
	return s.zone != nil && slices.Equal(s.zone.of, of) && time.Since(s.zone.read) <= zoneStaleMax
}

// slot returns the slot of a label, and begins to read its zone if that is too old. The channel is closed when the
// reading ends that must be waited for; nil: none must.
func (c *cache) slot(label string, of []api.FrameworkID) (*slot, <-chan struct{}) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	s := c.slots[label]
	if s == nil {
		s = &slot{}
		c.dropOldest()
		c.slots[label] = s
	}
	fresh := s.tells(of) && time.Since(s.zone.read) < s.zone.freshFor()
	if s.reading == nil && !fresh && (s.err == nil || time.Since(s.ended) >= retryAfter) {
		s.reading = make(chan struct{})
		c.reads.Go(func() { c.read(s, of) })
	}
	if fresh {
		return s, nil
	}
	return s, s.reading
}

// dropOldest makes room for one more slot.
func (c *cache) dropOldest() {
	if len(c.slots) < zonesMax {
		return
	}
	oldest := ""
	for label, s := range c.slots { // order: irrelevant because any of equally old ones may be dropped
		if oldest == "" || s.ended.Before(c.slots[oldest].ended) {
			oldest = label
		}
	}
	delete(c.slots, oldest)
}

// read reads the zone of some frameworks into their slot.
func (c *cache) read(s *slot, of []api.FrameworkID) {
	ctx, cancel := context.WithTimeout(c.life, readTimeout)
	defer cancel()
	z, err := newZone(of, time.Now()), error(nil)
	for _, framework := range of {
		if err == nil {
			var notYet *api.Error
			notYet, err = c.source.eachTask(ctx, framework, func(task *apiv1.TaskView) bool { z.add(task); return !z.full })
			z.notYet = cmp.Or(z.notYet, notYet)
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if err == nil && z.notYet != nil && s.tells(of) { // what is kept says more
		err = z.notYet
	}
	s.err, s.ended = err, time.Now()
	if err == nil {
		s.zone = z
	}
	close(s.reading)
	s.reading = nil
}
