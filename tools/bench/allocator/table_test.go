package allocator_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"text/tabwriter"
)

var (
	table = flag.Bool("table", false, "measure the grid and print it beside the figures of Mesos")
	quick = flag.Bool("quick", false, "only the corners of the grid")
	svg   = flag.String("svg", "", "draw the growth into this file")
)

// Known figures of Mesos: its hierarchical allocator with DRF sorters, compiled with -O2, in thread time on such a
// machine.
var (
	mesosFull = map[[2]int]string{
		{1000, 1}: "31.0 ms", {1000, 100}: "31.5 ms", {1000, 1000}: "44.5 ms", {5000, 500}: "213 ms",
		{10000, 1000}: "528 ms", {20000, 2000}: "1.63 s", {50000, 100}: "2.72 s",
	}
	mesosSuppress = map[[2]int]string{
		{1000, 100}: "31.3 ms", {1000, 1000}: "31.4 ms", {5000, 500}: "181 ms",
		{10000, 1000}: "422 ms", {20000, 2000}: "961 ms", {50000, 100}: "2.61 s",
	}
	mesosDecline = map[[2]int]string{
		{1000, 1}: "8.3 ms, 0 offers", {1000, 100}: "37.8 ms", {1000, 1000}: "47.7 ms", {5000, 500}: "225 ms",
		{10000, 1000}: "577 ms", {20000, 2000}: "1.62 s", {50000, 100}: "2.73 s",
	}
	goals = map[[2]int]string{{10000, 1000}: "15 ms", {20000, 2000}: "40 ms", {50000, 100}: "70 ms", {50000, 6000}: "150 ms"}
)

func sizes() [][2]int {
	if *quick {
		return [][2]int{{1000, 1}, {1000, 1000}, {10000, 1000}, {20000, 2000}, {50000, 100}, {50000, 6000}}
	}
	all := [][2]int{{5000, 500}, {10000, 1000}, {20000, 2000}} // sizes for which Mesos was measured
	for _, agents := range []int{1000, 5000, 10000, 20000, 30000, 50000} {
		for _, frameworks := range []int{1, 50, 100, 200, 500, 1000, 3000, 6000} {
			if size := [2]int{agents, frameworks}; size != all[1] {
				all = append(all, size)
			}
		}
	}
	return all
}

func cycles() int {
	if *quick {
		return 5
	}
	return 15
}

// printer writes the rows of the table as they come, aligned by shape.
type printer struct {
	t   *testing.T
	out *tabwriter.Writer
}

func (p printer) row(cells ...any) {
	for _, cell := range cells {
		fmt.Fprintf(p.out, "%v\t", cell)
	}
	fmt.Fprintln(p.out)
}

func (p printer) fail(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// TestTable prints the table of make bench-allocator.
func TestTable(t *testing.T) {
	if !*table {
		t.Skip("measures for a while; run it with -args -table")
	}
	p := printer{t, tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)}
	fmt.Println("Processor time of one goroutine: median (least-most) number of runs.")
	for _, part := range []func(printer){fullCycles, suppressed, declined, returned, multi, quotas} {
		p.row("SHAPE", "TENDER", "GOAL", "MESOS")
		part(p)
		p.row()
		p.fail(p.out.Flush())
	}
	if *svg != "" {
		p.fail(Draw(*svg, fresh, *quick))
		fmt.Println("drawn:", *svg)
	}
}

func fullCycles(p printer) {
	for _, size := range sizes() {
		sample, err := FullCycle(fresh, size[0], size[1], 1, cycles())
		p.fail(err)
		p.row(fmt.Sprintf("full cycle, %d agents x %d frameworks", size[0], size[1]), sample, goals[size], mesosFull[size])
	}
}

func suppressed(p printer) {
	for _, size := range sizes() {
		if size[1] < 100 {
			continue
		}
		sample, err := FullCycle(fresh, size[0], size[1], 100, cycles())
		p.fail(err)
		p.row(fmt.Sprintf("99 %% suppressed, %d x %d", size[0], size[1]), sample, "", mesosSuppress[size])
	}
}

// filtersMax limits the memory for the largest sizes.
const filtersMax = 1_000_000

func declined(p printer) {
	for _, size := range sizes() {
		sample, err := DeclineEarly(fresh, size[0], size[1], filtersMax)
		p.fail(err)
		p.row(fmt.Sprintf("DeclineOffers, %d x %d, cycles until a million filters", size[0], size[1]), sample, "", mesosDecline[size])
	}
	declined, err := DeclineAll(fresh, 1000, 1000)
	p.fail(err)
	p.row("all declined by all, 1000 x 1000, nothing changed", declined.Unchanged, "10 µs", "10.4 s")
	p.row("  the same, one agent has changed", declined.Woken)
	p.row("  memory of a filter", fmt.Sprintf("%.0f B", declined.BytesPerFilter), "150 B", "4.2 KB")
}

func returned(p printer) {
	returns, err := OneReturns(fresh, 50000, 6000, 100, 1000)
	p.fail(err)
	p.row("one agent returns, 50000 x 6000, 99 % suppressed", returns, "20 µs", "next batch, 1 s")
	returns, err = OneReturns(fresh, 50000, 6000, 1, 1000)
	p.fail(err)
	p.row("  the same, none suppressed", returns, "", "next batch, 1 s")
}

func multi(p printer) {
	for _, stated := range []bool{false, true} {
		m := MultiFramework(fresh(), stated, 5000)
		p.row(fmt.Sprintf("MultiFrameworkAllocations, demand stated: %v", stated),
			fmt.Sprintf("%d of %d tasks, %d rounds, %s", m.Launched, Wanted, m.Rounds, m.Took), "19500", "stalls at 5132")
	}
}

func quotas(p printer) {
	for _, size := range [][2]int{{25, 5}, {250, 50}, {2500, 500}} {
		first, idle, met := Quotas(fresh(), size[0], size[1])
		p.row(fmt.Sprintf("LargeAndSmallQuota, %d small, %d large roles", size[0], size[1]),
			fmt.Sprintf("first %s, idle %s, all met: %v", first, idle, met))
	}
}
