package rdd

import (
	"bufio"
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
	from := d.lineageOf()
	if from.err != nil {
		return nil, from.err
	}
	parts := make([][]T, from.partitions)
	err := d.context.runJob(ctx, d.id, func(partition int, value []byte) (err error) {
		defer caught(&err)
		parts[partition] = slices.Collect(readElements[T](bytes.NewReader(value)))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.Concat(parts...), nil
}

// Count returns the number of elements.
func (d Dataset[T]) Count(ctx context.Context) (total int, err error) {
	counts, err := Parameterized[bool, T, int]{"count " + nameOf[T]()}.With(false).On(d).Collect(ctx)
	for _, count := range counts {
		total += count
	}
	return total, err
}

// ErrEmpty is what Reduce returns for an empty dataset.
var ErrEmpty = errors.New("rdd: nothing to reduce: the dataset is empty")

// Reduce reduces all elements to one. Executors reduce each partition, and the driver reduces their results in the
// order of the partitions. So a sum of floats is the same to the last digit, whichever executors have computed it.
func (d Dataset[T]) Reduce(ctx context.Context, r Reducer[T]) (sum T, err error) {
	parts, err := r.On(d).Collect(ctx)
	if err != nil {
		return sum, err
	}
	if len(parts) == 0 {
		return sum, ErrEmpty
	}
	f := named(r.name).reduce.(func(T, T) T)
	sum = parts[0]
	for _, part := range parts[1:] {
		sum = f(sum, part)
	}
	return sum, nil
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
	if _, err := (Parameterized[string, T, int]{"save " + nameOf[T]()}).With(dir).On(d).Collect(ctx); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "_SUCCESS"), nil, 0o644)
}

// declareActions declares the steps that executors do for the actions above, for elements of type T.
func declareActions[T any]() {
	declare("count "+nameOf[T](), func(_ int, _ bool, in iter.Seq[T]) iter.Seq[int] {
		n := 0
		for range in {
			n++
		}
		return slices.Values([]int{n})
	})
	declare("save "+nameOf[T](), func(partition int, dir string, in iter.Seq[T]) iter.Seq[int] {
		check(saveLines(dir, partition, in))
		return slices.Values([]int(nil))
	})
}

// saveLines writes a partition's file under a temporary name until it is complete, so that a task that is tried again does
// not meet what is left of the first.
func saveLines[T any](dir string, partition int, elements iter.Seq[T]) error {
	file, err := os.CreateTemp(dir, ".part")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // after the rename no file has this name
	defer file.Close()
	lines := bufio.NewWriterSize(file, 64<<10)
	for element := range elements {
		if _, err := fmt.Fprintln(lines, element); err != nil {
			return err
		}
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(dir, fmt.Sprintf("part-%05d", partition)))
}
