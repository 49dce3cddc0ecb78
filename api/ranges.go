package api

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Range holds the numbers from Begin to End, both included.
type Range struct {
	Begin, End uint64
}

// Ranges is a set of numbers as sorted ranges, which neither touch nor are empty. Immutable.
type Ranges []Range

// NewRanges sorts and joins ranges, which may come in any order. A range with End < Begin is empty and left out.
func NewRanges(ranges ...Range) Ranges {
	sorted := slices.DeleteFunc(slices.Clone(ranges), func(r Range) bool { return r.End < r.Begin })
	slices.SortFunc(sorted, func(a, b Range) int {
		switch {
		case a.Begin < b.Begin:
			return -1
		case a.Begin > b.Begin:
			return +1
		}
		return 0
	})
	var joined Ranges
	for _, r := range sorted {
		joined = joined.join(r)
	}
	return joined
}

// Union returns the numbers that are in r or in s.
func (r Ranges) Union(s Ranges) Ranges {
	switch {
	case len(r) == 0:
		return s
	case len(s) == 0:
		return r
	}
	all := make(Ranges, 0, len(r)+len(s))
	for len(r) > 0 || len(s) > 0 {
		if len(s) == 0 || len(r) > 0 && r[0].Begin <= s[0].Begin {
			all, r = all.join(r[0]), r[1:]
		} else {
			all, s = all.join(s[0]), s[1:]
		}
	}
	return all
}

// join appends a range that does not begin before the last one, and merges the two if they touch.
func (r Ranges) join(next Range) Ranges {
	last := len(r) - 1
	if last >= 0 && (next.Begin <= r[last].End || next.Begin == r[last].End+1) {
		r[last].End = max(r[last].End, next.End)
		return r
	}
	return append(r, next)
}

// Minus returns the numbers of r that are not in s.
func (r Ranges) Minus(s Ranges) Ranges {
	if len(s) == 0 {
		return r
	}
	var left Ranges
	j := 0
	for _, have := range r {
		begin, done := have.Begin, false
		for j < len(s) && s[j].End < begin {
			j++
		}
		for k := j; k < len(s) && s[k].Begin <= have.End; k++ {
			if s[k].Begin > begin {
				left = append(left, Range{begin, s[k].Begin - 1})
			}
			if s[k].End >= have.End {
				done = true
				break
			}
			begin = s[k].End + 1
		}
		if !done {
			left = append(left, Range{begin, have.End})
		}
	}
	return left
}

// Intersect returns the numbers that are in both.
func (r Ranges) Intersect(s Ranges) Ranges {
	var both Ranges
	for i, j := 0, 0; i < len(r) && j < len(s); {
		if begin, end := max(r[i].Begin, s[j].Begin), min(r[i].End, s[j].End); begin <= end {
			both = append(both, Range{begin, end})
		}
		if r[i].End < s[j].End {
			i++
		} else {
			j++
		}
	}
	return both
}

// Contains reports whether all numbers of s are in r.
func (r Ranges) Contains(s Ranges) bool {
	i := 0
	for _, want := range s {
		for i < len(r) && r[i].End < want.Begin {
			i++
		}
		if i == len(r) || r[i].Begin > want.Begin || r[i].End < want.End {
			return false
		}
	}
	return true
}

// Len returns how many numbers there are. For the range of all 2^64 numbers it returns one too few.
func (r Ranges) Len() uint64 {
	var count uint64
	for _, one := range r {
		count += one.End - one.Begin + 1
	}
	if count == 0 && len(r) > 0 {
		return math.MaxUint64
	}
	return count
}

// First returns the n smallest numbers, or all of them when there are fewer.
func (r Ranges) First(n int) []uint64 {
	var numbers []uint64
	for _, one := range r {
		for x := one.Begin; len(numbers) < n; x++ {
			numbers = append(numbers, x)
			if x == one.End {
				break
			}
		}
	}
	return numbers
}

// String is "[31000-31009,32000]".
func (r Ranges) String() string {
	parts := make([]string, len(r))
	for i, one := range r {
		parts[i] = strconv.FormatUint(one.Begin, 10)
		if one.End != one.Begin {
			parts[i] += "-" + strconv.FormatUint(one.End, 10)
		}
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (r Ranges) check(name string) error {
	if len(r) > RangesMax {
		return fmt.Errorf("%s has %d ranges, at most %d are allowed", name, len(r), RangesMax)
	}
	for i, one := range r {
		switch {
		case one.End < one.Begin:
			return fmt.Errorf("%s: range %d-%d ends before it begins", name, one.Begin, one.End)
		case i > 0 && one.Begin <= r[i-1].End:
			return fmt.Errorf("%s: ranges %v are not in order", name, r)
		}
	}
	return nil
}

// Set is a set of words, sorted, each once. Immutable.
type Set []string

// NewSet sorts words and drops repeats.
func NewSet(words ...string) Set {
	sorted := slices.Clone(words)
	slices.Sort(sorted)
	return Set(slices.Compact(sorted))
}

// Union returns the words that are in s or in t.
func (s Set) Union(t Set) Set {
	switch {
	case len(s) == 0:
		return t
	case len(t) == 0:
		return s
	}
	return NewSet(append(slices.Clone(s), t...)...)
}

// Minus returns the words of s that are not in t.
func (s Set) Minus(t Set) Set {
	return s.filter(func(word string) bool { return !t.has(word) })
}

// Intersect returns the words that are in both.
func (s Set) Intersect(t Set) Set { return s.filter(t.has) }

// Contains reports whether all words of t are in s.
func (s Set) Contains(t Set) bool { return len(t.Minus(s)) == 0 }

func (s Set) has(word string) bool {
	_, found := slices.BinarySearch(s, word)
	return found
}

func (s Set) filter(keep func(string) bool) Set {
	var kept Set
	for _, word := range s {
		if keep(word) {
			kept = append(kept, word)
		}
	}
	return kept
}

// String is "{a,b}".
func (s Set) String() string { return "{" + strings.Join(s, ",") + "}" }

func (s Set) check(name string) error {
	if len(s) > RangesMax {
		return fmt.Errorf("%s has %d words, at most %d are allowed", name, len(s), RangesMax)
	}
	for _, word := range s {
		if err := CheckID("a word of "+name, word); err != nil {
			return err
		}
		if strings.ContainsAny(word, notation) {
			return fmt.Errorf("%s: word %q may not hold brackets, ':', ';', ',' or '='", name, word)
		}
	}
	return nil
}

// Lowest returns the ranges that hold the n lowest numbers, or all of r when there are fewer.
func (r Ranges) Lowest(n uint64) Ranges {
	var kept Ranges
	for _, one := range r {
		if n == 0 {
			break
		}
		if one.End-one.Begin >= n {
			one.End = one.Begin + n - 1
		}
		kept = append(kept, one)
		n -= one.End - one.Begin + 1
	}
	return kept
}
