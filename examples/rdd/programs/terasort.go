package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/examples/rdd"
)

var (
	drawRecord = rdd.Map("draw-record", recordOf)
	keyOf      = rdd.KeyBy("key-of", sortKey)
	judge      = rdd.Partitions("judge", judgeOf)
)

func recordOf(n int) string {
	random := rand.New(rand.NewPCG(uint64(n), 2))
	var record [98]byte // with the end of its line 99 bytes
	for i := range record {
		record[i] = 'a' + byte(random.IntN(26))
	}
	return string(record[:])
}

func sortKey(record string) string { return record[:min(10, len(record))] }

// Verdict is what has to be known of a sorted partition so that it need not be read again.
type Verdict struct {
	Records     int
	Sum         uint64 // of hashes, so that the order does not matter
	First, Last string
	Sorted      bool
}

func judgeOf(records iter.Seq[string]) iter.Seq[Verdict] {
	return func(yield func(Verdict) bool) {
		v := Verdict{Sorted: true}
		for record := range records {
			key := sortKey(record)
			if v.Records++; v.Records == 1 {
				v.First = key
			}
			v.Sorted = v.Sorted && v.Last <= key
			v.Last = key
			v.Sum += fingerprint(record)
		}
		yield(v)
	}
}

// fingerprint is FNV-1a.
func fingerprint(text string) uint64 {
	sum := uint64(14695981039346656037)
	for i := range len(text) {
		sum = (sum ^ uint64(text[i])) * 1099511628211
	}
	return sum
}

// follow combines the verdicts of partitions that follow each other.
func follow(verdicts []Verdict) Verdict {
	whole := Verdict{Sorted: true}
	for _, v := range verdicts {
		if v.Records == 0 {
			continue
		}
		whole.Sorted = whole.Sorted && v.Sorted && whole.Last <= v.First
		whole.Records, whole.Sum, whole.Last = whole.Records+v.Records, whole.Sum+v.Sum, v.Last
	}
	return whole
}

// terasort draws records, sorts them, and checks the result: are all there, and in order?
func terasort(flags *flag.FlagSet) func(context.Context, *rdd.Context, io.Writer) error {
	records := flags.Int("records", 1_000_000, "`number` of records of 99 bytes")
	plain := flags.Bool("plain", false, "sort the same in this process as well, by one goroutine and all in memory")
	dir := flags.String("dir", "", "`folder` to write the sorted records to; \"\": none, they are judged alone")
	return func(ctx context.Context, c *rdd.Context, out io.Writer) error {
		drawn := drawRecord.On(rdd.Range(c, *records, 1+*records/200_000))
		before, err := judge.On(drawn).Collect(ctx)
		if err != nil {
			return err
		}
		begun := time.Now()
		sorted := rdd.SortBy(drawn, keyOf)
		if *dir != "" {
			if err := sorted.Save(ctx, *dir); err != nil {
				return err
			}
		}
		after, err := judge.On(sorted).Collect(ctx)
		if err != nil {
			return err
		}
		took := time.Since(begun)
		want, got := follow(before), follow(after)
		switch {
		case got.Records != want.Records || got.Sum != want.Sum:
			return fmt.Errorf("%d records went in and %d came out, or others", want.Records, got.Records)
		case !got.Sorted:
			return errors.New("the records are not sorted")
		}
		fmt.Fprintf(out, "%d records, sorted and complete: %.3f s\n", got.Records, took.Seconds())
		if *plain {
			return sortHere(out, *records, want)
		}
		return nil
	}
}

// sortHere draws and sorts the records in this process, in the simplest way, and checks them too.
func sortHere(out io.Writer, n int, want Verdict) error {
	begun := time.Now()
	records := make([]string, n)
	for i := range records {
		records[i] = recordOf(i)
	}
	slices.SortFunc(records, func(a, b string) int { return strings.Compare(sortKey(a), sortKey(b)) })
	got := slices.Collect(judgeOf(slices.Values(records)))[0]
	took := time.Since(begun)
	if got.Records != want.Records || got.Sum != want.Sum || !got.Sorted {
		return fmt.Errorf("one goroutine of this process has sorted other records: %+v, want %+v", got, want)
	}
	fmt.Fprintf(out, "one goroutine of this process sorts the same: %.3f s\n", took.Seconds())
	return nil
}
