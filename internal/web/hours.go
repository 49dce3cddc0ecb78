package web

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
)

// hours is what the accounting says of the time before a mirror took samples: who held how much, hour by hour.
type hours struct {
	back    string // how far it goes
	asked   time.Time
	samples []sample
}

const (
	// hoursKept is how long an answer of the accounting is shown before it is asked anew.
	hoursKept = 5 * time.Minute
	// hoursMax bounds how many rows of it are read.
	hoursMax = 20_000
)

// accounted returns samples from the accounting, where the line of time goes back further than an hour; nil: it does not,
// or nobody answers.
func (s *Server) accounted(ctx context.Context, m *mirror, query url.Values) []sample {
	now := s.config.Clock()
	when, past := momentOf(query)
	if !past {
		when = now
	}
	back, begins := reachOf(query, when, now)
	if back == backs[0] {
		return nil
	}
	m.mu.Lock()
	known, total := m.past.hours, m.tally.sums().total
	m.mu.Unlock()
	if known.back == back && now.Sub(known.asked) < hoursKept {
		return known.samples
	}
	rows, _, err := client.All(ctx, s.operator.ListUsage, hoursMax, &apiv1.ListUsageRequest{By: []string{"period", "role", "framework"}, Since: timestamppb.New(begins)})
	known.back, known.asked = back, now
	if err == nil { // else what was known is shown, and nobody is asked again at once
		known.samples = samplesOf(rows, total, now)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.past.hours = known
	return known.samples
}

// samplesOf returns two samples for each period: as it began and as it ended, since all that is known is the mean.
func samplesOf(rows []*apiv1.UsageView, total amounts, now time.Time) (all []sample) {
	slices.SortStableFunc(rows, func(a, b *apiv1.UsageView) int { return a.GetBegin().AsTime().Compare(b.GetBegin().AsTime()) })
	for from := 0; from < len(rows); {
		to := from
		begin, end := periodOf(rows[from], now)
		var held []holding
		for ; to < len(rows) && rows[to].GetBegin().AsTime().Equal(begin); to++ {
			whose := holder{role: rows[to].GetRole(), framework: cmp.Or(rows[to].GetFrameworkName(), rows[to].GetFrameworkId())}
			held = append(held, holding{holder: whose, amounts: meanOf(rows[to].GetAllocated(), begin, end)})
		}
		joined := len(all) > 0 && all[len(all)-1].at.Equal(begin)
		all = append(all, sample{begin, total, held, joined}, sample{end, total, held, true})
		from = to
	}
	return all
}

// periodOf returns the time for which a row of the accounting counts: its period, as far as that has passed.
func periodOf(row *apiv1.UsageView, now time.Time) (begin, end time.Time) {
	if begin, end = row.GetBegin().AsTime(), row.GetEnd().AsTime(); end.After(now) {
		end = now
	}
	return begin, end
}

// meanOf returns how much it was on average, by what it comes to over a time.
func meanOf(sums map[string]float64, begin, end time.Time) (mean amounts) {
	for i, kind := range sizes {
		mean[i] = int64(1000 * sums[kind] / max(1, end.Sub(begin).Seconds()))
	}
	return mean
}

// after returns the samples of the mirror, behind those from before them.
func (p *past) after(before []sample) []sample {
	if len(p.samples) > 0 {
		before = upTo(before, p.samples[0].at)
	}
	return append(before[:len(before):len(before)], p.samples...)
}

// upTo returns the samples up to a moment; what was so until after it ends there.
func upTo(samples []sample, when time.Time) []sample {
	last := slices.IndexFunc(samples, func(s sample) bool { return s.at.After(when) })
	if last < 0 {
		return samples
	}
	cut := samples[last]
	if samples = samples[:last:last]; cut.joined {
		cut.at = when
		samples = append(samples, cut)
	}
	return samples
}
