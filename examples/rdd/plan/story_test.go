package plan_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tenderhq/tender/examples/rdd/plan"
)

// story is a graph, its books and one job in the hands of a transcript.
type story struct {
	graph *plan.Graph
	books *plan.Books
	job   *plan.Job
	node  plan.NodeID
	kept  map[plan.NodeID]bool // datasets that executors cache
	open  map[plan.Task]int    // number of the attempt
	place plan.Place           // of the last run
}

// TestStories tells what runs when, and again after a loss. Lines of a command are carried out in order:
//
//	lines 4             a source of 4 partitions
//	map lines           partition by partition (keep: cached)
//	shuffle 2 a b       a dataset of 2 partitions that reads the shuffled a, b
//	union a b           one after the other
//	want                a job for all partitions of the last dataset
//	run P               everything that is ready begins at place P
//	done, fail, lose P  those that run end well, badly, or die with their place
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := story{graph: plan.NewGraph(), books: plan.NewBooks(), kept: map[plan.NodeID]bool{}, open: map[plan.Task]int{}}
		names := map[string]plan.NodeID{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				if d.Cmd == "lineage" {
					s.define(names, strings.Fields(line))
				} else {
					s.act(t, &out, strings.Fields(line))
				}
			}
			return out.String()
		})
	})
}

// define adds a dataset: NAME OP ARGS.
func (s *story) define(names map[string]plan.NodeID, words []string) {
	name, op, args := words[0], words[1], words[2:]
	var node plan.Node
	switch op {
	case "source":
		node.Partitions, _ = strconv.Atoi(args[0]) // 0 partitions are an empty story
	case "map", "keep":
		node.Partitions = s.graph.Node(names[args[0]]).Partitions
		node.Parents = []plan.Parent{{Node: names[args[0]]}}
	case "union":
		for _, arg := range args {
			node.Parents = append(node.Parents, plan.Parent{Node: names[arg], First: node.Partitions})
			node.Partitions += s.graph.Node(names[arg]).Partitions
		}
	case "shuffle":
		node.Partitions, _ = strconv.Atoi(args[0]) // 0 partitions are an empty story
		for _, arg := range args[1:] {
			node.Shuffles = append(node.Shuffles,
				s.graph.AddShuffle(plan.Shuffle{From: names[arg]}))
		}
	}
	s.node = s.graph.AddNode(node)
	s.kept[s.node] = op == "keep"
	names[name] = s.node
}

func (s *story) act(t *testing.T, out *strings.Builder, words []string) {
	switch words[0] {
	case "want":
		s.job = plan.NewJob(s.graph, s.books, s.node)
	case "run":
		s.place = plan.Place(words[1])
		for _, task := range s.job.Ready() {
			fmt.Fprintf(out, "%v%s\n", task, reads(s.job, task))
			number := s.job.Queue(task)
			s.job.Start(task, number, s.place)
			s.open[task] = number
		}
	case "done":
		for task, number := range s.open {
			s.finish(task, number)
		}
	case "fail":
		again := true
		for task, number := range s.open {
			again = s.job.Fail(task, number) && again
		}
		clear(s.open)
		fmt.Fprintln(out, "may be tried again:", again)
	case "lose":
		s.books.Forget(plan.Place(words[1]))
		s.job.Lose(plan.Place(words[1]))
		clear(s.open)
	default:
		t.Fatalf("what is %q?", words)
	}
	if s.job.Done() {
		fmt.Fprintln(out, "done")
	}
}

// finish keeps what the task has computed of cached datasets, as an executor does.
func (s *story) finish(task plan.Task, number int) {
	for _, block := range s.job.Inputs(task).Chain {
		if s.kept[block.Node] && len(s.books.Holders(block)) == 0 {
			s.books.Keep(block, s.place)
		}
	}
	s.job.Finish(task, number)
	delete(s.open, task)
}

// reads says where the task's inputs are.
func reads(job *plan.Job, task plan.Task) string {
	var said strings.Builder
	in := job.Inputs(task)
	for _, block := range in.Chain {
		if place := in.Kept[block]; place != "" {
			fmt.Fprintf(&said, ", dataset %d from the cache of %v", block.Node, place)
		}
	}
	for id := plan.ShuffleID(1); id < 10; id++ {
		if places := in.Outputs[id]; len(places) > 0 {
			fmt.Fprintf(&said, ", shuffle %d from %v", id, places)
		}
	}
	if places := job.Prefers(task); len(places) > 0 {
		fmt.Fprintf(&said, ", best at %v", places)
	}
	return said.String()
}
