package rdd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
)

// Collect returns all elements, in order.
func (d Dataset[T]) Collect(ctx context.Context) ([]T, error) {
	return d.gatherElements(ctx, action{Op: actCollect}, d.allPartitions())
}

// Count returns the number of elements.
func (d Dataset[T]) Count(ctx context.Context) (total int, err error) {
	err = d.runAction(ctx, action{Op: actCount}, d.allPartitions(), func(_ int, value []byte) error {
		n, err := unpack[int](value)
		total += n
		return err
	})
	if err != nil {
		return 0, err
	}
	return total, nil
}

// ErrEmpty is what Reduce returns for an empty dataset.
var ErrEmpty = errors.New("rdd: nothing to reduce: the dataset is empty")

// Reduce reduces all elements to one. Executors reduce each partition, and the driver reduces their results in the
// order of the partitions. So a sum of floats is the same to the last digit, whichever executors have computed it.
func (d Dataset[T]) Reduce(ctx context.Context, r Reducer[T]) (sum T, err error) {
	if err = known.usable(r.name); err != nil {
		return sum, err
	}
	parts, err := d.gatherElements(ctx, action{Op: actFold, Name: r.name}, d.allPartitions())
	if err != nil {
		return sum, err
	}
	if len(parts) == 0 {
		return sum, ErrEmpty
	}
	f := named[*reducer](r.name).f.(func(T, T) T)
	sum = parts[0]
	for _, part := range parts[1:] {
		sum = f(sum, part)
	}
	return sum, nil
}

// Take returns the first n elements. It begins with one partition, and looks at further ones only as long as it needs
// to.
func (d Dataset[T]) Take(ctx context.Context, n int) ([]T, error) {
	if n < 0 {
		return nil, fmt.Errorf("rdd: nobody can take %d elements", n)
	}
	var taken []T
	all := d.allPartitions()
	for step := 1; len(taken) < n && len(all) > 0; step *= 4 {
		next := all[:min(step, len(all))]
		all = all[len(next):]
		more, err := d.gatherElements(ctx, action{Op: actTake, N: n - len(taken)}, next)
		if err != nil {
			return nil, err
		}
		taken = append(taken, more...)
	}
	return taken[:min(n, len(taken))], nil
}

// Save writes the elements as lines into a folder that must not exist yet: one file for each partition, and _SUCCESS
// when all are there. Executors must reach the folder under the same path.
func (d Dataset[T]) Save(ctx context.Context, dir string) error {
	if err := d.lineageOf().err; err != nil {
		return err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("rdd: the folder to write to: %w", err)
	}
	nothing := func(int, []byte) error { return nil }
	if err := d.runAction(ctx, action{Op: actSave, Path: dir}, d.allPartitions(), nothing); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "_SUCCESS"), nil, 0o644)
}

// allPartitions returns the numbers of all partitions.
func (d Dataset[T]) allPartitions() []int {
	all := make([]int, d.lineageOf().partitions)
	for i := range all {
		all[i] = i
	}
	return all
}

// gatherElements runs an action that returns elements, and returns them in the order of the partitions.
func (d Dataset[T]) gatherElements(ctx context.Context, a action, partitions []int) ([]T, error) {
	parts := map[int][]T{}
	err := d.runAction(ctx, a, partitions, func(partition int, value []byte) (err error) {
		defer caught(&err)
		seq := kindOf[T]{}.decode(bytes.NewReader(value))
		parts[partition] = slices.Collect(seq.(iter.Seq[T]))
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all []T
	for _, partition := range partitions {
		all = append(all, parts[partition]...)
	}
	return all, nil
}

// runAction runs an action on partitions of the dataset. see is called with each result, one at a time.
func (d Dataset[T]) runAction(ctx context.Context, a action, partitions []int, see func(partition int, value []byte) error) error {
	if err := d.lineageOf().err; err != nil {
		return err
	}
	return d.context.runJob(ctx, d.id, a, partitions, see)
}
