package taskset

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/work"
)

// record is what the store remembers of an item.
type record struct {
	Failures int    `json:"failures,omitempty"`
	Ended    bool   `json:"ended,omitempty"`
	Done     bool   `json:"done,omitempty"`
	Why      string `json:"why,omitempty"`
}

func (s *Set) recordPrefix() string { return s.config.Remember + "/" }

// recallRecords reads all records from the store.
func (s *Set) recallRecords(ctx context.Context) error {
	entries, err := s.store.List(ctx, s.recordPrefix())
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b framework.Entry) int { return cmp.Compare(a.Version, b.Version) })
	records := make(map[string]record, len(entries))
	s.endings = nil
	for _, entry := range entries {
		var remembered record
		if err := json.Unmarshal(entry.Value, &remembered); err != nil {
			return api.E("taskset.recall", api.Invalid, entry.Key, fmt.Errorf("this is no record of a set: %w", err))
		}
		id := strings.TrimPrefix(entry.Key, s.recordPrefix())
		records[id] = remembered
		if remembered.Ended {
			s.endings = append(s.endings, id)
		}
	}
	s.runWork(func(now time.Time) {
		s.state.records = records
		for _, it := range s.state.items { // order: irrelevant because each is judged by itself
			s.state.applyRecord(it, now)
		}
	})
	return nil
}

// applyRecord applies to an item what its record says, and reports whether the item has ended.
func (s *state) applyRecord(it *item, now time.Time) bool {
	known, ok := s.records[it.ID]
	if !ok || it.Service {
		return false
	}
	delete(s.records, it.ID)
	it.Failures = known.Failures
	if known.Ended {
		s.finishItem(it, Outcome{Done: known.Done, Why: known.Why}, now)
	}
	return known.Ended
}

// rememberEnd writes to the store the record that the item will have after a status, before the set takes the status in.
func (s *Set) rememberEnd(ctx context.Context, id string, status api.Status) error {
	s.mu.Lock()
	next, news := s.state.foreseeRecord(id, status, time.Now())
	s.mu.Unlock()
	if !news {
		return nil
	}
	value, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if _, err = s.store.Put(ctx, s.recordPrefix()+id, value, framework.AnyVersion); err != nil {
		return err
	}
	if next.Ended && !slices.Contains(s.endings[max(0, len(s.endings)-1):], id) { // the same status may come again
		s.endings = append(s.endings, id)
	}
	return s.forgetRecords(ctx)
}

// forgetRecords deletes the records of items that were removed, and the oldest records of ended items beyond
// RememberMost.
func (s *Set) forgetRecords(ctx context.Context) error {
	s.mu.Lock()
	removed := s.state.removed
	s.state.removed = nil
	s.mu.Unlock()
	for i, id := range removed {
		if err := s.deleteKey(ctx, s.recordPrefix()+id); err != nil {
			s.mu.Lock()
			s.state.removed = append(removed[i:], s.state.removed...)
			s.mu.Unlock()
			return err
		}
	}
	for len(s.endings) > s.config.RememberMost {
		if err := s.deleteKey(ctx, s.recordPrefix()+s.endings[0]); err != nil {
			return err
		}
		s.endings = s.endings[1:]
	}
	return nil
}

func (s *state) foreseeRecord(id string, status api.Status, now time.Time) (next record, news bool) {
	it := s.items[id]
	if it == nil || it.Service || !status.State.Settled() {
		return next, false
	}
	a := s.attempts[status.Task]
	if a == nil {
		a = &attempt{Attempt: work.Attempt{Since: now}}
	}
	tally, end := it.Foresee(a, status, now, s.rulesOf(it))
	if end.Verdict == work.Lost || end.Verdict == work.Ignored {
		return next, false
	}
	next = record{Failures: tally.Failures, Ended: end.GivenUp || end.Verdict == work.Well, Done: end.Verdict == work.Well}
	if next.Ended && !next.Done {
		next.Why = work.Words(status)
	}
	return next, true
}
