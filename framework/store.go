package framework

import (
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// Store keeps small values of the framework on a majority of the masters, such as what the next instance of the
// scheduler must know. Reads and writes are linearizable. An instance that was fenced can't write any more (R5). The
// store is deleted when the framework is removed.
//
// A key has at most 512 bytes, a value 1 MiB, a framework 100,000 keys and 64 MiB in all. A write beyond that, or
// beyond the masters' own bound for all frameworks, changes nothing and returns an error of kind [api.Limit]: it is not
// repeated, as nothing but a deletion helps. [Store.KeepFree] makes room for what has to be written later.
//
// The methods wait for a session and for the leader, over failovers, until their context ends. A repeated write is
// applied once. They may be called from any goroutine and from callbacks.
type Store struct {
	client   *Client
	keepFree uint32 // percent of each bound
}

// Store returns the framework's store.
func (c *Client) Store() *Store { return &Store{client: c} }

// KeepFree returns the store for writes of new work: a Put that would leave less than this share of some bound free, in
// percent (0 to 100), is refused as if the store were full. So there is still room for the writes by which older work
// goes on and ends. The masters compare, with all bounds that they know; deletions and writes that need no more room
// always pass.
func (s *Store) KeepFree(percent int) *Store { return &Store{s.client, uint32(percent)} }

// Entry is a key of the store with its value.
type Entry struct {
	Key   string
	Value []byte
	// Version grows with each change of the key. 0: the key does not exist.
	Version uint64
	// Deleted is set only by Watch, for a key that was deleted.
	Deleted bool
}

// AnyVersion lets a write succeed whatever version the key has.
const AnyVersion = ^uint64(0)

// Get reads a key. For a key that does not exist it returns an Entry with version 0, and no error.
func (s *Store) Get(ctx context.Context, key string) (Entry, error) {
	var entry *apiv1.StoreEntry
	err := s.client.present.atLeader(ctx, "store.get", key, func(ctx context.Context, p place) (err error) {
		entry, err = p.store.Get(ctx, &apiv1.StoreGetRequest{Session: p.session, Key: key})
		return err
	})
	return entryFromProto(entry), err
}

// Put writes a value if the key has this version. 0 means that the key must not exist, [AnyVersion] that any version
// will do. Otherwise the error's kind is [api.Stale] and nothing has changed. It is [api.Fenced] when another instance
// may have been active since the call ([Client.Takeovers]).
func (s *Store) Put(ctx context.Context, key string, value []byte, version uint64) (Entry, error) {
	version, err := s.client.writeStore(ctx, "store.put", &apiv1.StoreWrite{Key: key, Value: value, IfVersion: condition(version), KeepFreePercent: s.keepFree})
	if err != nil {
		return Entry{}, err
	}
	return Entry{Key: key, Value: value, Version: version}, nil
}

// Delete removes a key if it has the version, as in [Store.Put].
func (s *Store) Delete(ctx context.Context, key string, version uint64) error {
	_, err := s.client.writeStore(ctx, "store.delete", &apiv1.StoreWrite{Key: key, Delete: true, IfVersion: condition(version)})
	return err
}

// writeStore writes in the sessions of one turn of this instance: what somebody decided before another instance was
// active would undo what that one has done.
func (c *Client) writeStore(ctx context.Context, op string, write *apiv1.StoreWrite) (version uint64, err error) {
	takeovers := c.Takeovers()
	lane, err := c.lanes.enter(ctx, c.ended)
	if err != nil {
		return 0, api.E(op, api.Unavailable, write.Key, err)
	}
	defer c.lanes.leave(lane)
	write.Write, write.Lane = lane.write, lane.number
	err = c.present.atLeader(ctx, op, write.Key, func(ctx context.Context, p place) (err error) {
		if p.takeovers != takeovers {
			return errTakenOver
		}
		version, err = p.writes.write(ctx, p.session, write)
		return err
	})
	return version, err
}

// List reads all entries under a prefix, in the order of their keys. An entry that changes meanwhile is returned as it
// was or as it is.
func (s *Store) List(ctx context.Context, prefix string) (entries []Entry, err error) {
	for entry, err := range s.All(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// All is [Store.List] as an iterator: while the caller handles some entries, the next ones are fetched. An error comes
// last, with an empty Entry.
func (s *Store) All(ctx context.Context, prefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		pages, left := make(chan page), make(chan struct{})
		var reading sync.WaitGroup
		reading.Go(func() { s.readPages(ctx, prefix, pages, left) })
		defer reading.Wait()
		defer stop()
		defer close(left)
		for next := range pages {
			for _, entry := range next.entries {
				if !yield(entryFromProto(entry), nil) {
					return
				}
			}
			if next.err != nil {
				yield(Entry{}, next.err)
			}
		}
	}
}

// page is a part of the entries under a prefix, or the error that ended the reading.
type page struct {
	entries []*apiv1.StoreEntry
	err     error
}

// readPages reads page after page, until the last one or until the caller has left.
func (s *Store) readPages(ctx context.Context, prefix string, to chan<- page, left <-chan struct{}) {
	defer close(to)
	for token := ""; ; {
		var answer *apiv1.StoreListResponse
		err := s.client.present.atLeader(ctx, "store.list", prefix, func(ctx context.Context, p place) (err error) {
			answer, err = p.store.List(ctx, &apiv1.StoreListRequest{Session: p.session, Prefix: prefix, PageToken: token})
			return err
		})
		select {
		case to <- page{answer.GetItems(), err}:
		case <-left:
			return
		}
		if token = answer.GetNextPageToken(); token == "" || err != nil {
			return
		}
	}
}

// Watch calls see, in the caller's goroutine, with the entries under a prefix and then with each change of them. It
// returns when ctx ends, or when see fails, with that error. see is told how each key is, not each write: of several
// writes in quick succession only the last is sure to be told. After a failover all entries come again; then the keys
// that see was told before and that no longer exist come as deleted. Don't call Watch in a callback: it would hold up
// all others.
func (s *Store) Watch(ctx context.Context, prefix string, see func(Entry) error) error {
	var stopped error
	told := watched{streams: make(map[string]uint64)}
	err := s.client.present.atLeader(ctx, "store.watch", prefix, func(ctx context.Context, p place) error {
		ctx, end := context.WithCancel(ctx)
		defer end() // ends the stream if see fails
		told.stream++
		stream, err := p.store.Watch(ctx, &apiv1.StoreWatchRequest{Session: p.session, Prefix: prefix, MarkComplete: true})
		for err == nil {
			var entry *apiv1.StoreEntry
			if entry, err = stream.Recv(); err != nil {
				break
			}
			for _, news := range told.hear(entry) {
				if stopped = see(news); stopped != nil {
					return nil // the error is not the master's, so the call is not repeated
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return api.E("store.watch", api.Unavailable, prefix, errors.New("the master has ended the watch"))
		}
		return err
	})
	if stopped != nil {
		return stopped
	}
	return err
}

// watched is what a watch has told so far, over all the streams that it has needed.
type watched struct {
	stream  uint64            // number of the current stream
	streams map[string]uint64 // by key that exists: the last stream that has told it
}

// hear returns the entries that the watcher is to be told for a message.
func (w *watched) hear(message *apiv1.StoreEntry) []Entry {
	switch key := message.GetKey(); {
	case message.GetComplete():
		return w.endings(message.GetVersion())
	case message.GetDeleted():
		delete(w.streams, key)
	default:
		w.streams[key] = w.stream
	}
	return []Entry{entryFromProto(message)}
}

// endings returns, once the current stream is complete, the keys that earlier streams have told and this one has not:
// they were deleted meanwhile.
func (w *watched) endings(version uint64) []Entry {
	var gone []Entry
	for _, key := range slices.Sorted(maps.Keys(w.streams)) {
		if w.streams[key] != w.stream {
			delete(w.streams, key)
			gone = append(gone, Entry{Key: key, Version: version, Deleted: true})
		}
	}
	return gone
}

func condition(version uint64) *uint64 {
	if version == AnyVersion {
		return nil
	}
	return &version
}

func entryFromProto(m *apiv1.StoreEntry) Entry {
	return Entry{Key: m.GetKey(), Value: m.GetValue(), Version: m.GetVersion(), Deleted: m.GetDeleted()}
}
