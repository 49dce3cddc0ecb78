package master

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/allocator/journal"
	"github.com/tenderhq/tender/api"
)

const (
	// journalQueueMax bounds the batches that wait to be written. When it is full, what follows is left out, and the
	// journal begins anew with everything that is known.
	journalQueueMax = 1024
	// journalBytesMax is the size at which a file is renamed to FILE.1, which replaces the one before.
	journalBytesMax = 256 << 20
)

// recorder writes down what the policy is told and proposes while this master leads. It never makes the leader's loop
// wait.
type recorder struct {
	path  string
	log   zerolog.Logger
	queue chan []byte
	full  atomic.Bool // set by the writer when the file is full; the loop then begins anew

	// The fields below belong to the loop's goroutine.
	encoder journal.Encoder
	mirror  *inputs.Mirror
	batch   []byte
	gap     bool
}

// record puts a recorder in front of the policy. A policy that does something on its own gets no journal, because its
// decisions depend on more than its inputs.
func (m *Master) record(policy allocator.Allocator) (allocator.Allocator, *recorder) {
	if _, lives := policy.(living); lives || m.config.AllocatorJournal == "" {
		return policy, nil
	}
	r := &recorder{
		path: m.config.AllocatorJournal, log: *m.log, queue: make(chan []byte, journalQueueMax), mirror: inputs.NewMirror(),
		encoder: journal.Encoder{Policy: m.config.Allocator, Config: m.config.AllocatorConfig, Epoch: time.Now()},
	}
	r.batch = r.encoder.Head(nil, r.mirror, true)
	return inputs.NewTap(policy, r.told, r.proposed), r
}

func (r *recorder) told(input inputs.Input) {
	if _, run := input.(inputs.Allocate); run && r.full.Swap(false) {
		r.anew()
	}
	r.mirror.Note(input)
	if run, is := input.(inputs.Allocate); is {
		r.mirror.Forget(run.At)
	}
	if !r.gap {
		r.batch = r.encoder.Input(r.batch, input)
	}
}

func (r *recorder) proposed(allocation allocator.Allocation) {
	r.mirror.Propose(allocation.Offers)
	if r.gap {
		if len(r.queue) > 0 {
			return
		}
		r.anew()
	} else {
		r.batch = r.encoder.Proposed(r.batch, allocation)
	}
	select {
	case r.queue <- r.batch:
		r.batch = nil
	default:
		r.batch, r.gap = nil, true
	}
}

// anew begins the journal again with everything that is known.
func (r *recorder) anew() {
	r.gap = false
	r.batch = r.encoder.Head(r.batch[:0], r.mirror, false)
}

// write runs in a goroutine and writes to the disk. It returns when the queue is closed and everything is written.
func (r *recorder) write() {
	err := r.writeAll()
	if err != nil {
		r.log.Warn().Err(err).Str("file", r.path).Msg("the allocator's journal is not written any more")
	}
	for range r.queue { // discard the rest, so that the queue never fills up
	}
}

func (r *recorder) writeAll() (err error) {
	file, size, err := openJournal(r.path)
	if errors.Is(err, journal.ErrFormat) { // another version of this master wrote it
		r.log.Info().AnErr("why", err).Str("file", r.path+".1").Msg("the allocator's journal was moved aside, and a new one begins")
		if err = os.Rename(r.path, r.path+".1"); err == nil {
			file, size, err = openJournal(r.path)
		}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for batch := range r.queue {
		if size > journalBytesMax && journal.BeginsAnew(batch) {
			if err := errors.Join(file.Close(), os.Rename(r.path, r.path+".1")); err != nil {
				return err
			}
			if file, size, err = openJournal(r.path); err != nil {
				return err
			}
		}
		n, err := file.Write(batch)
		if err != nil {
			return err
		}
		if size += int64(n); size > journalBytesMax {
			r.full.Store(true)
		}
	}
	return nil
}

// checkJournal says at the start that the journal can't be written: later only the log would say so.
func (c Config) checkJournal() error {
	if c.AllocatorJournal == "" {
		return nil
	}
	file, err := openToAppend(c.AllocatorJournal)
	if err != nil {
		return api.E("master.journal", api.Unavailable, c.AllocatorJournal,
			fmt.Errorf("the allocator's journal can't be opened; name another file with --allocator-journal, or leave it out: %w", err))
	}
	return file.Close()
}

// openToAppend opens the file of a journal, and makes it if it does not exist.
func openToAppend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
}

// openJournal opens a journal for appending, or begins a new one.
func openJournal(path string) (*os.File, int64, error) {
	file, err := openToAppend(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	if info.Size() > 0 {
		whole, err := journal.Whole(file)
		if err == nil && whole < info.Size() { // the last process was killed while it was writing
			err = file.Truncate(whole)
		}
		if err != nil {
			return nil, 0, errors.Join(api.E("master.journal", api.Invalid, path, err), file.Close())
		}
		return file, whole, nil
	}
	n, err := file.WriteString(journal.Magic)
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, int64(n), nil
}

// recording starts writing. The returned function stops it and waits until everything is written.
func (r *recorder) recording() (stop func()) {
	if r == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.write()
	}()
	return func() { close(r.queue); <-done }
}
