package rdd

import (
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/tenderhq/tender/examples/rdd/plan"
)

// showStages prints what the stages of a job that has just ended have done, and what is cached now.
func (c *Context) showStages(j *job) {
	if c.config.Stages == nil {
		return
	}
	took := time.Since(c.began) - j.began
	fmt.Fprintf(c.config.Stages, "%s, %s of dataset %d: %.3f s\n", j.name, j.action.Op, j.node, took.Seconds())
	table := tabwriter.NewWriter(c.config.Stages, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "  stage\ttasks done\trunning\tfailed\tdone again\ttime")
	for _, one := range j.plan.Work() {
		name := "result"
		if one.Shuffle != 0 {
			name = fmt.Sprint("shuffle ", one.Shuffle)
		}
		fmt.Fprintf(table, "  %s\t%d\t%d\t%d\t%d\t%.3f s\n", name, one.Done, one.Running, one.Failed, one.Again, max(0, one.Ended-one.Began).Seconds())
	}
	c.showCache(table)
	_ = table.Flush() // if the table can't be printed, nobody gets it
}

// showCache prints a line for each dataset that is cached somewhere.
func (c *Context) showCache(table *tabwriter.Writer) {
	all := map[plan.NodeID]held{}
	// order: irrelevant because they are added up
	for _, p := range c.places {
		for node, one := range p.cached {
			sum := all[node]
			all[node] = held{sum.Memory + one.Memory, sum.Disk + one.Disk, sum.Bytes + one.Bytes, sum.Hits + one.Hits}
		}
	}
	maps.DeleteFunc(all, func(node plan.NodeID, _ held) bool { return !c.nodes[node].Kept })
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(table, "  cached\tpartitions\tin memory\ton disk\tcached again\thits")
	for _, node := range slices.Sorted(maps.Keys(all)) {
		one := all[node]
		fmt.Fprintf(table, "  dataset %d\t%d of %d\t%.1f MB\t%d\t%d\t%d\n", node, c.books.Cached(node), c.graph.Node(node).Partitions,
			float64(one.Bytes)/1e6, one.Disk, c.books.Again(node), one.Hits)
	}
}
