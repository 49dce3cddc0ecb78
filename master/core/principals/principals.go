// Package principals counts what the frameworks of each principal have together, and says when one more would be too much:
// whatever one principal does, there is room for the others (R34). It knows no frameworks; whoever does tells it what they
// gain and lose. The frameworks of nobody, where nobody is asked who he is, are not counted and have no bound.
package principals

import (
	"fmt"

	"github.com/tenderhq/tender/master/view"
)

// The defaults of Limits are far above what a leader of ten thousand agents serves.
const (
	tasksMax  = 500_000
	shapesMax = 250_000
)

// Limits are how much the frameworks of one principal may have together. Zero fields mean the defaults.
type Limits struct {
	Tasks  int // that are not forgotten. Default 500,000
	Shapes int // of demands. Default 250,000
}

func (l Limits) withDefaults() Limits {
	if l.Tasks == 0 {
		l.Tasks = tasksMax
	}
	if l.Shapes == 0 {
		l.Shapes = shapesMax
	}
	return l
}

// Shares are what each principal has, by its name.
type Shares struct {
	limits Limits
	of     map[string]*Share
}

// New has counted nothing yet.
func New(limits Limits) Shares { return Shares{limits.withDefaults(), make(map[string]*Share)} }

// Share is what the frameworks of one principal have together. A nil one is nobody's.
type Share struct {
	principal string
	limits    Limits
	has       view.Tally
}

// Of is the share of a principal; nil for nobody's.
func (s Shares) Of(principal string) *Share {
	if principal == "" {
		return nil
	}
	if s.of[principal] == nil {
		s.of[principal] = &Share{principal: principal, limits: s.limits}
	}
	return s.of[principal]
}

// All is what each principal has of which something was counted.
func (s Shares) All() map[string]view.Tally {
	all := make(map[string]view.Tally, len(s.of))
	for principal, share := range s.of { // order: irrelevant because it fills a map
		all[principal] = share.has
	}
	return all
}

// Add counts what a framework has more.
func (s *Share) Add(more view.Tally) {
	if s != nil {
		s.has.Frameworks, s.has.Tasks, s.has.Shapes = s.has.Frameworks+more.Frameworks, s.has.Tasks+more.Tasks, s.has.Shapes+more.Shapes
	}
}

// Take counts what it has less.
func (s *Share) Take(less view.Tally) {
	s.Add(view.Tally{Frameworks: -less.Frameworks, Tasks: -less.Tasks, Shapes: -less.Shapes})
}

// RoomForTask says why there is no room for one more task; nil: there is.
func (s *Share) RoomForTask() error {
	if s == nil || s.has.Tasks < s.limits.Tasks {
		return nil
	}
	return fmt.Errorf("the frameworks of principal %q have %d tasks, and may have %d, so that there is room for others; end some first",
		s.principal, s.has.Tasks, s.limits.Tasks)
}

// RoomForShapes says why there is no room for so many more shapes of demands; nil: there is.
func (s *Share) RoomForShapes(more int) error {
	if s == nil || more <= 0 || s.has.Shapes+more <= s.limits.Shapes {
		return nil
	}
	return fmt.Errorf("the demands of principal %q have %d shapes, and may have %d, so that there is room for others; "+
		"%d more are too many: want less, or the same by fewer shapes with higher counts", s.principal, s.has.Shapes, s.limits.Shapes, more)
}
