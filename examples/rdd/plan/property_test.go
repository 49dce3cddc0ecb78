package plan_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/examples/rdd/plan"
)

// drawGraph draws a lineage of up to ten datasets of all kinds, some of which executors cache.
func drawGraph(t *rapid.T) (graph *plan.Graph, last plan.NodeID, kept map[plan.NodeID]bool) {
	graph, kept = plan.NewGraph(), map[plan.NodeID]bool{}
	last = graph.AddNode(plan.Node{Partitions: rapid.IntRange(1, 4).Draw(t, "partitions")})
	for range rapid.IntRange(1, 9).Draw(t, "datasets") {
		var node plan.Node
		from := plan.NodeID(rapid.IntRange(1, int(last)).Draw(t, "from"))
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			node.Partitions, node.Parents = graph.Node(from).Partitions, []plan.Parent{{Node: from}}
		case 1:
			node.Parents = []plan.Parent{{Node: from}, {Node: last, First: graph.Node(from).Partitions}}
			node.Partitions = graph.Node(from).Partitions + graph.Node(last).Partitions
		case 2:
			node.Partitions = rapid.IntRange(1, 4).Draw(t, "partitions")
			node.Shuffles = []plan.ShuffleID{graph.AddShuffle(plan.Shuffle{From: from})}
		}
		last = graph.AddNode(node)
		kept[last] = rapid.Bool().Draw(t, "kept")
	}
	return graph, last, kept
}

// TestEveryJobEnds: whatever the lineage and whoever dies when, the job ends once nobody dies any more; what a task
// reads is always there when it begins, and nothing is computed twice that was not lost.
func TestEveryJobEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		graph, last, kept := drawGraph(t)
		books := plan.NewBooks()
		job := plan.NewJob(graph, books, last)
		losses, ran, lost := rapid.IntRange(0, 5).Draw(t, "losses"), map[plan.Task]int{}, false
		for rounds := 0; !job.Done(); rounds++ {
			ready := job.Ready()
			if len(ready) == 0 || rounds > 1000 {
				t.Fatalf("after %d rounds nothing can run, and the job is not done", rounds)
			}
			task := rapid.SampledFrom(ready).Draw(t, "task")
			place := rapid.SampledFrom([]plan.Place{"P1", "P2", "P3"}).Draw(t, "place")
			in := job.Inputs(task)
			for id, places := range in.Outputs {
				for partition, at := range places {
					if at == "" {
						t.Fatalf("%v begins without output %d of shuffle %d", task, partition, id)
					}
				}
			}
			number := job.Queue(task)
			job.Start(task, number, place)
			if ran[task]++; ran[task] > 1 && !lost {
				t.Fatalf("%v runs again, and nothing was lost", task)
			}
			if losses > 0 && rapid.Bool().Draw(t, "die") {
				losses, lost = losses-1, true
				books.Forget(place)
				job.Lose(place)
				if job.Finish(task, number) {
					t.Fatalf("%v counts, though its place has died", task)
				}
				continue
			}
			for _, block := range in.Chain {
				if kept[block.Node] {
					books.Keep(block, place)
				}
			}
			if !job.Finish(task, number) {
				t.Fatalf("%v is done, and does not count", task)
			}
		}
	})
}
