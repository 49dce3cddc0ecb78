package protocol

import (
	"slices"

	"github.com/tenderhq/tender/api"
)

// CountDown takes a launched task off what is still wanted: off the first shape with any left that asks for
// exactly what the task takes, alone or with its executor, and that suits; where none of those suits, off the
// first of them. It says which shape that was, or -1: the launch was of something else. Everybody who keeps a
// demand counts by this function: the scheduler's process, the leader, the suite of the allocators. (R38)
// A task that names a group counts for shapes of that group first.
func CountDown(shapes []api.Shape, task *api.Task, suits func(*api.Shape) bool) int {
	if at := countDown(shapes, task, task.Resources, suits); at >= 0 || task.Executor == nil || task.Executor.Resources.IsZero() {
		return at
	}
	return countDown(shapes, task, task.Resources.Plus(task.Executor.Resources), suits)
}

func countDown(shapes []api.Shape, task *api.Task, taken api.Resources, suits func(*api.Shape) bool) int {
	var alike []int
	for i := range shapes {
		if shapes[i].Count > 0 && asksFor(shapes[i].Resources, taken) {
			alike = append(alike, i)
		}
	}
	if len(alike) == 0 {
		return -1
	}
	if group := slices.DeleteFunc(slices.Clone(alike), func(i int) bool { return shapes[i].Group != task.Group }); len(group) > 0 {
		alike = group
	}
	at := alike[0]
	if len(alike) > 1 { // else there is nothing to choose
		if i := slices.IndexFunc(alike, func(i int) bool { return suits(&shapes[i]) }); i >= 0 {
			at = alike[i]
		}
	}
	shapes[at].Count--
	return at
}

// Counted are the tasks as which an operation counts for a demand: those that it launches, or for a group one that asks
// for all that they ask for together.
func Counted(operation *api.Operation) []api.Task {
	if operation.Kind != api.OpLaunchGroup || len(operation.Tasks) == 0 {
		return operation.Tasks
	}
	whole := operation.Tasks[0]
	for i := range operation.Tasks[1:] {
		whole.Resources = whole.Resources.Plus(operation.Tasks[1+i].Resources)
	}
	return []api.Task{whole}
}

// Wanted are the shapes of which any is left. Never nil: none at all means that nothing is wanted.
func Wanted(shapes []api.Shape) []api.Shape {
	return slices.DeleteFunc(append([]api.Shape{}, shapes...), func(s api.Shape) bool { return s.Count < 1 })
}

// asksFor reports whether the shape and what was taken for it are the same amounts of the same kinds, firm and
// revocable apart. Which numbers, and from which reservation, is the offer's affair.
func asksFor(shape, taken api.Resources) bool {
	if shape.Equal(taken) {
		return true
	}
	for _, items := range [2][]api.Resource{shape.Items(), taken.Items()} {
		for i := range items {
			if amountOf(shape, &items[i]) != amountOf(taken, &items[i]) {
				return false
			}
		}
	}
	return true
}

// amountOf sums what is of the item's kind, each number of a range and each word of a set as one.
func amountOf(resources api.Resources, kind *api.Resource) (sum int64) {
	items := resources.Items()
	for i := range items {
		if item := &items[i]; item.Name == kind.Name && item.Revocable == kind.Revocable {
			sum += int64(item.Scalar) + 1000*int64(item.Ranges.Len()+uint64(len(item.Set)))
		}
	}
	return sum
}
