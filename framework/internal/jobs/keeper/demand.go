package keeper

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

// tellEvery is the least time between two tellings of how many tasks of which jobs wait: people see it in metrics.
const tellEvery = 5 * time.Second

// tellJobDemand tells the masters how many tasks of which jobs wait, if that has changed and was not told just before.
func (k *Keeper) tellJobDemand(now time.Time) {
	if !k.wants.untold || now.Before(k.wants.tellAt) {
		return
	}
	k.wants.untold, k.wants.tellAt = false, now.Add(tellEvery)
	k.askMasters(func() error { _ = k.masters.TellJobDemand(k.wants.byJobs()); return nil }) // people read it, and nothing depends on it
}

// nextTelling returns when there is something to tell of what jobs want; zero: there is nothing.
func (k *Keeper) nextTelling() time.Time {
	if !k.wants.untold || k.masters == nil || !k.settled {
		return time.Time{}
	}
	return k.wants.tellAt
}

// byJobs returns how many tasks of which jobs wait, those with the most by their names.
func (w *wants) byJobs() map[string]int64 {
	all := make(map[string]int64, len(w.byJob))
	for name, want := range w.byJob { // order: irrelevant because each is counted alone
		for _, ask := range want.asks {
			all[name] += int64(ask.Count)
		}
	}
	if len(all) <= api.JobDemandMax {
		return all
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b], all[a]), strings.Compare(a, b))
	})
	others := int64(0)
	for _, name := range names[api.JobDemandMax:] {
		others += all[name]
		delete(all, name)
	}
	all[api.OtherJobs] = others
	return all
}
