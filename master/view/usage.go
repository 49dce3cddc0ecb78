package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/registry/spent"
)

// UsageRow is what one of those has held and used whom a list of usage tells apart.
type UsageRow struct {
	Begin, End time.Time
	spent.Row
}

// UsageQuery selects who has used how much.
type UsageQuery struct {
	Query                  // Limit and After
	Since, Until time.Time // zero: not bounded
	By           UsageBy
}

// UsageBy is what rows are told apart by. Everything else is summed.
type UsageBy uint8

// What rows can be told apart by, in the order of the rows.
const (
	ByPeriod UsageBy = 1 << iota
	ByRole
	ByPrincipal
	ByFramework
	ByJob
)

var usageWords = []string{"period", "role", "principal", "framework", "job"}

// ParseUsageBy reads the words for what rows are told apart by.
func ParseUsageBy(words []string) (by UsageBy, err error) {
	for _, word := range words {
		i := slices.Index(usageWords, word)
		if i < 0 {
			return 0, fmt.Errorf("usage is not told apart by %.40q, but by %s", word, strings.Join(usageWords, ", "))
		}
		by |= 1 << i
	}
	return by, nil
}

// of returns the part of a key by which rows are told apart.
func (by UsageBy) of(key spent.Key) spent.Key {
	if by&ByRole == 0 {
		key.Role = ""
	}
	if by&ByPrincipal == 0 {
		key.Principal = ""
	}
	if by&ByFramework == 0 {
		key.Framework = ""
	}
	if by&ByJob == 0 {
		key.Job = ""
	}
	return key
}

// Usage is all that is kept of who has used how much, with what is not recorded yet. It does not change any more, so it
// can be summed outside the leader's loop.
type Usage struct {
	Book spent.Book
	Sees rights.Scope
}

// Usage returns who has used how much. Only the leader knows what is not recorded yet.
func (c Cluster) Usage(now time.Time) Usage {
	if c.Leader == nil {
		return Usage{c.Registry.Usage, c.Sees}
	}
	return Usage{c.Leader.Usage(now), c.Sees}
}

// Page sums what the caller may see.
func (u Usage) Page(q UsageQuery) Page[UsageRow] {
	sums := make(map[string]UsageRow)
	for _, p := range u.Book.Periods {
		if !q.Since.IsZero() && !p.End().After(q.Since) || !q.Until.IsZero() && !p.Begin.Before(q.Until) {
			continue
		}
		for _, row := range p.Rows {
			if u.Sees.Covers(rights.Object{Role: row.Role, Principal: row.Principal, Framework: row.Framework, Name: row.Name}) {
				q.add(sums, p, row)
			}
		}
	}
	list := newRows[UsageRow](q.Query)
	for name, sum := range sums { // order: irrelevant because rows are sorted
		list.add(name, sum)
	}
	return pageOf(list, func(sum UsageRow) UsageRow { return sum })
}

// add adds a row of a period to the sum to which it belongs.
func (q *UsageQuery) add(sums map[string]UsageRow, p spent.Period, row spent.Row) {
	key := q.By.of(row.Key)
	name := strings.Join([]string{string(key.Role), key.Principal, string(key.Framework), key.Job}, "\x00")
	if q.By&ByPeriod != 0 {
		name = strconv.FormatInt(p.Begin.Unix(), 10) + "\x00" + name
	}
	sum, is := sums[name]
	if !is {
		sum = UsageRow{Begin: p.Begin, Row: spent.Row{Key: key}}
	}
	if q.By&ByFramework != 0 {
		sum.Name = row.Name
	}
	sum.End, sum.Row = p.End(), sum.Row.Plus(row)
	sums[name] = sum
}
