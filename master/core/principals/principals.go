// Package principals counts what the frameworks of each principal have together, and says when one more would be too
// much: whatever one principal does, there is room for the others (R34). It knows no frameworks; its caller tells it
// what they gain and lose. Frameworks without a principal, in clusters that check no identities, are not counted and
// have no bound.
package principals

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/view"
)

// The defaults of Limits are far above what a leader of ten thousand agents serves.
const (
	tasksMax   = 500_000
	shapesMax  = 250_000
	offersMax  = 250_000
	filtersMax = 1_000_000
)

// FiltersRetry is how long a principal with too many filters waits before it declines again: by then the default filter
// has ended.
const FiltersRetry = api.DefaultRefuse

// Limits says how much the frameworks of one principal may have together. Zero fields mean the defaults.
type Limits struct {
	Tasks  int // tasks that are not forgotten. Default 500,000
	Shapes int // shapes of demands. Default 250,000
	// Offers is how many offers may be open. A principal that holds so many is offered nothing more until an eighth of
	// them is answered. Default 250,000.
	Offers int
	// Filters is how many filters may be in force. A principal that has so many is offered nothing more until an eighth
	// of them has ended. Default 1,000,000.
	Filters int
}

func (l Limits) withDefaults() Limits {
	l.Tasks = cmp.Or(l.Tasks, tasksMax)
	l.Shapes = cmp.Or(l.Shapes, shapesMax)
	l.Offers = cmp.Or(l.Offers, offersMax)
	l.Filters = cmp.Or(l.Filters, filtersMax)
	return l
}

// Shares holds what each principal has, by its name.
type Shares struct {
	limits Limits
	of     map[string]*Share
	// crowded names the principals that may have reached a limit of offers or filters, or that are offered nothing
	// more.
	crowded map[string]bool
}

// New returns shares in which nothing is counted yet.
func New(limits Limits) Shares {
	return Shares{limits.withDefaults(), make(map[string]*Share), make(map[string]bool)}
}

// Share is what the frameworks of one principal have together. A nil share stands for no principal and has no bound.
type Share struct {
	principal string
	limits    Limits
	has       view.Tally
	withheld  string // why the frameworks are offered nothing more; "": they are offered more
}

// Of returns the share of a principal; nil for the empty name.
func (s Shares) Of(principal string) *Share {
	if principal == "" {
		return nil
	}
	if s.of[principal] == nil {
		s.of[principal] = &Share{principal: principal, limits: s.limits}
	}
	return s.of[principal]
}

// All returns what each principal has, for principals of which something was counted.
func (s Shares) All() map[string]view.Tally {
	all := make(map[string]view.Tally, len(s.of))
	for principal, share := range s.of { // order: irrelevant because it fills a map
		all[principal] = share.has
	}
	return all
}

// Add counts what a framework has gained.
func (s *Share) Add(more view.Tally) {
	if s != nil {
		s.has = s.has.Plus(more)
	}
}

// Take counts what a framework has lost.
func (s *Share) Take(less view.Tally) {
	if s != nil {
		s.has = s.has.Less(less)
	}
}

// RoomForTask says why there is no room for one more task; nil when there is room.
func (s *Share) RoomForTask() error {
	if s == nil || s.has.Tasks < s.limits.Tasks {
		return nil
	}
	return fmt.Errorf("the frameworks of principal %q have %d tasks, and may have %d, so that there is room for others; end some first",
		s.principal, s.has.Tasks, s.limits.Tasks)
}

// RoomForShapes says why there is no room for that many more shapes of demands; nil when there is room.
func (s *Share) RoomForShapes(more int) error {
	if s == nil || more <= 0 || s.has.Shapes+more <= s.limits.Shapes {
		return nil
	}
	return fmt.Errorf("the demands of principal %q have %d shapes, and may have %d, so that there is room for others; "+
		"%d more are too many: want less, or the same by fewer shapes with higher counts", s.principal, s.has.Shapes, s.limits.Shapes, more)
}

// RoomForOffer says why there is no room for one more open offer; nil when there is room.
func (s *Share) RoomForOffer() error {
	if s == nil || s.has.Offers < s.limits.Offers {
		return nil
	}
	return fmt.Errorf("the frameworks of principal %q hold %d open offers, and may hold %d, so that there is room for others; "+
		"they are offered more when they hold fewer than %d", s.principal, s.has.Offers, s.limits.Offers, again(s.limits.Offers))
}

// RoomForFilter says why there is no room for one more filter beside those that the principal has; nil when there is
// room.
func (s *Share) RoomForFilter(filters int) error {
	if s == nil || filters < s.limits.Filters {
		return nil
	}
	return fmt.Errorf("the frameworks of principal %q have %d filters, and may have %d, so that there is room for others; "+
		"they are offered more when fewer than %d are in force: filter for a shorter time, or suppress the role",
		s.principal, filters, s.limits.Filters, again(s.limits.Filters))
}

// again returns the number of offers or filters below which a principal that had reached the limit is offered something
// again. All its frameworks are told of that change, which would be too much work for each offer that is answered.
func again(limit int) int { return limit - limit/8 }

// Principal returns the name of the principal whose share it is; "" when it is nobody's.
func (s *Share) Principal() string {
	if s == nil {
		return ""
	}
	return s.principal
}

// Withheld says why the principal's frameworks are offered nothing more; "" when they are offered more.
func (s *Share) Withheld() string {
	if s == nil {
		return ""
	}
	return s.withheld
}

// Crowd notes that the principal may have reached a limit of offers or filters. The next Weigh looks at it.
func (s Shares) Crowd(share *Share) { s.crowded[share.principal] = true }

// Weigh looks at the principals that were noted by Crowd and at those that are offered nothing more. The function
// filters returns how many filters a principal has. Weigh returns, in order, the shares of the principals that are now
// withheld from and were not, or the other way round.
func (s Shares) Weigh(filters func(principal string) int) []*Share {
	var changed []*Share
	for _, principal := range slices.Sorted(maps.Keys(s.crowded)) {
		share := s.of[principal]
		before := share.withheld
		share.weigh(filters(principal))
		if share.withheld == "" {
			delete(s.crowded, principal)
		}
		if (before == "") != (share.withheld == "") {
			changed = append(changed, share)
		}
	}
	return changed
}

func (s *Share) weigh(filters int) {
	full := s.RoomForOffer()
	if full == nil {
		full = s.RoomForFilter(filters)
	}
	switch {
	case full != nil && s.withheld == "":
		s.withheld = full.Error()
	case s.has.Offers < again(s.limits.Offers) && filters < again(s.limits.Filters):
		s.withheld = ""
	}
}
