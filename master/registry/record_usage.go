package registry

import (
	"time"

	"github.com/tenderhq/tender/master/registry/spent"
)

// RecordUsage adds what was used since the last record. (Protocol rule R80.)
type RecordUsage struct {
	Saw   time.Time // Usage.Until as the leader saw it
	Until time.Time
	Hours []spent.Period
}

func (change RecordUsage) apply(s *State, _ time.Time) Result {
	s.Usage = s.Usage.With(change.Until.Round(0).UTC(), change.Hours...)
	return Result{}
}

func (change RecordUsage) saw() sight { return sawUsage{change.Saw} }

func (RecordUsage) onlyKept() {}
