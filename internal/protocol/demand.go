package protocol

import (
	"slices"

	"github.com/tenderhq/tender/api"
)

// CountDown takes a launched task off what is still wanted. It takes it off the first shape that has any left, asks for
// exactly what the task takes (alone or with its executor), and suits. If none of those suits, it takes it off the
// first of them. It returns the index of that shape, or -1 if the launch matched none. Everybody who keeps a demand
// counts with this function: the scheduler's process, the leader, and the test suite of the allocators (R38). A task
// that names a group counts for shapes of that group first.
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
	if len(alike) > 1 { // otherwise there is nothing to choose
		if i := slices.IndexFunc(alike, func(i int) bool { return suits(&shapes[i]) }); i >= 0 {
			at = alike[i]
		}
	}
	shapes[at].Count--
	return at
}

// Counted returns the tasks as which an operation counts for a demand: the tasks that it launches, or for a group one
// task that asks for the sum of what they ask for.
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

// Wanted returns the shapes of which any is left. It is never nil: an empty list means that nothing is wanted.
func Wanted(shapes []api.Shape) []api.Shape {
	return slices.DeleteFunc(append([]api.Shape{}, shapes...), func(s api.Shape) bool { return s.Count < 1 })
}

// asksFor reports whether the shape and what was taken are the same amounts of the same kinds, with firm and revocable
// resources apart. Which numbers they are, and from which reservation, does not matter.
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

// amountOf sums all resources of the item's kind; each number of a range and each word of a set counts as one.
func amountOf(resources api.Resources, kind *api.Resource) (sum int64) {
	items := resources.Items()
	for i := range items {
		if item := &items[i]; item.Name == kind.Name && item.Revocable == kind.Revocable {
			sum += int64(item.Scalar) + 1000*int64(item.Ranges.Len()+uint64(len(item.Set)))
		}
	}
	return sum
}
