package master

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/intake"
	"github.com/tenderhq/tender/master/internal/outbox"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// storeService keeps small values for frameworks. Reads come from the leader's copy
// after a majority has confirmed that it still leads, so they see every write that
// was answered before.
type storeService struct {
	apiv1.UnimplementedStoreServiceServer
	master *Master
}

// owner is the framework whose store a call is about, if the call's session is the current one. (Protocol rule R5.)
func owner(ctx context.Context, state *registry.State, op string, session *apiv1.StoreSession) (registry.Framework, error) {
	id := api.FrameworkID(session.GetFrameworkId())
	framework, known := state.Frameworks[id]
	switch {
	case !known:
		return framework, api.E(op, api.NotFound, id, errors.New("no such framework"))
	case !guard.ScopeOf(ctx).Holds(framework.Framework.Principal):
		return registry.Framework{}, api.E(op, api.Denied, id, errors.New("its store is another principal's"))
	case !framework.Removed.IsZero():
		return framework, api.E(op, api.Removed, id, errors.New(framework.Why))
	case framework.Session != session.GetSession():
		return framework, api.E(op, api.Fenced, id,
			fmt.Errorf("session %d is over; session %d has taken its place", session.GetSession(), framework.Session))
	}
	return framework, nil
}

// read looks into a framework's store in the leader's loop. sure says of which leaderships it is known that they led
// when the call came.
func (s storeService) read(ctx context.Context, op string, session *apiv1.StoreSession, sure func(api.Term) bool, look func(registry.Framework, api.Term)) error {
	l := s.master.leading.Load()
	if l == nil {
		return s.master.notLeader(op)
	}
	if !sure(l.lead.Term) {
		if err := l.lead.Verify(ctx); err != nil {
			return s.master.notLeader(op)
		}
	}
	var refused error
	err := l.read(ctx, op, func(c view.Cluster, _ time.Time) {
		var framework registry.Framework
		if framework, refused = owner(ctx, c.Registry, op, session); refused == nil {
			look(framework, l.lead.Term)
		}
	})
	return errors.Join(err, refused)
}

func entryOf(key string, entry registry.Entry) *apiv1.StoreEntry {
	return &apiv1.StoreEntry{Key: key, Value: entry.Value, Version: entry.Version}
}

func (s storeService) Get(ctx context.Context, r *apiv1.StoreGetRequest) (*apiv1.StoreEntry, error) {
	answer := &apiv1.StoreEntry{Key: r.GetKey()}
	nobody := func(api.Term) bool { return false }
	err := s.read(ctx, "store.get", r.GetSession(), nobody, func(f registry.Framework, _ api.Term) { answer = entryOf(r.GetKey(), f.Store[r.GetKey()]) })
	return answer, err
}

// listBytesMax keeps a page below the limit of a message. The one item that is larger
// alone comes alone.
const listBytesMax = api.MessageBytesMax / 2

// List is a page of a list. Whoever made the page before this one led while the list was read; if it still does, as far
// as it knows, this page is of a later time than that, and no majority has to confirm it once more.
func (s storeService) List(ctx context.Context, r *apiv1.StoreListRequest) (*apiv1.StoreListResponse, error) {
	answer := &apiv1.StoreListResponse{}
	before, after := splitToken(r.GetPageToken())
	sure := func(term api.Term) bool { return before == term.String() }
	err := s.read(ctx, "store.list", r.GetSession(), sure, func(f registry.Framework, term api.Term) {
		if answer = listStore(f, r, after); answer.NextPageToken != "" {
			answer.NextPageToken = tokenOf(term, answer.NextPageToken)
		}
	})
	return answer, err
}

// tokenMark begins a page's token, and ends the term in it. Tokens of older masters are the key alone.
const tokenMark = "\x00"

// tokenOf names the last key of a page, and the term of the leadership that has made it.
func tokenOf(term api.Term, key string) string { return tokenMark + term.String() + tokenMark + key }

// splitToken reads a token; term "": it is the key alone.
func splitToken(token string) (term, key string) {
	rest, marked := strings.CutPrefix(token, tokenMark)
	term, key, whole := strings.Cut(rest, tokenMark)
	if !marked || !whole {
		return "", token
	}
	return term, key
}

// listStore is a page of the keys behind one; its token is its last key.
func listStore(f registry.Framework, r *apiv1.StoreListRequest, after string) *apiv1.StoreListResponse {
	limit := int(r.GetLimit())
	if limit <= 0 || limit > api.PageItemsMax {
		limit = api.PageItemsMax
	}
	answer := &apiv1.StoreListResponse{}
	bytes := 0
	for _, key := range keysBehind(f, r.GetPrefix(), after, limit+1) { // one more shows that there is a next page
		entry := f.Store[key]
		bytes += len(key) + len(entry.Value)
		if n := len(answer.Items); n == limit || n > 0 && bytes > listBytesMax {
			answer.NextPageToken = answer.Items[n-1].Key
			break
		}
		answer.Items = append(answer.Items, entryOf(key, entry))
	}
	return answer
}

// keysBehind are the first keys under the prefix that come after another, in order and at most so many. It looks at all
// keys of the store and sorts few: who reads a large store asks for many pages, all in the leader's loop.
func keysBehind(f registry.Framework, prefix, after string, most int) []string {
	var keys []string
	last := ""                 // no key behind this one is among the first; "": not known yet
	for key := range f.Store { // order: irrelevant because the first are the same
		if key <= after || last != "" && key > last || !strings.HasPrefix(key, prefix) {
			continue
		}
		if keys = append(keys, key); len(keys) == 2*most {
			slices.Sort(keys)
			keys = keys[:most]
			last = keys[most-1]
		}
	}
	slices.Sort(keys)
	return keys[:min(len(keys), most)]
}

func keysUnder(f registry.Framework, prefix string) []string {
	var keys []string
	for key := range f.Store {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (s storeService) Put(ctx context.Context, r *apiv1.StorePutRequest) (*apiv1.StoreEntry, error) {
	const op = "store.put"
	result, err := s.write(ctx, op, r, registry.PutEntry{
		Framework: api.FrameworkID(r.GetSession().GetFrameworkId()), Session: r.GetSession().GetSession(),
		Key: r.GetKey(), Value: r.GetValue(), IfVersion: r.IfVersion,
	})
	if err != nil {
		return nil, err
	}
	return &apiv1.StoreEntry{Key: r.GetKey(), Version: result.Version}, nil
}

func (s storeService) Delete(ctx context.Context, r *apiv1.StoreDeleteRequest) (*apiv1.StoreEntry, error) {
	result, err := s.write(ctx, "store.delete", r, registry.DeleteEntry{
		Framework: api.FrameworkID(r.GetSession().GetFrameworkId()), Session: r.GetSession().GetSession(),
		Key: r.GetKey(), IfVersion: r.IfVersion,
	})
	if err != nil {
		return nil, err
	}
	return &apiv1.StoreEntry{Key: r.GetKey(), Version: result.Version, Deleted: result.Version != 0}, nil
}

// numbered is a request to write.
type numbered interface {
	proto.Message
	GetSession() *apiv1.StoreSession
	GetWrite() uint64
	GetLane() uint32
}

// write commits a change under the scheduler's own identity, so that a repeat is
// applied once (R17).
func (s storeService) write(ctx context.Context, op string, r numbered, change registry.Change) (registry.Result, error) {
	if err := api.CheckID("instance", r.GetSession().GetInstance()); err != nil {
		return registry.Result{}, api.E(op, api.Invalid, r.GetSession().GetFrameworkId(), err)
	}
	if r.GetWrite() == 0 || r.GetLane() >= api.StoreLanesMax {
		return registry.Result{}, api.E(op, api.Invalid, r.GetSession().GetFrameworkId(),
			fmt.Errorf("a write names its scheduler's instance and a lane below %d, and is numbered from 1", api.StoreLanesMax))
	}
	l := s.master.leading.Load()
	if l == nil {
		return registry.Result{}, s.master.notLeader(op)
	}
	answer, err := l.writeStore(ctx, op, core.StoreWrite{
		Change: change, Instance: api.Nonce(r.GetSession().GetInstance()), Lane: r.GetLane(), Counter: r.GetWrite(),
	}, proto.Size(r))
	if err != nil {
		return registry.Result{}, err
	}
	result, ok := answer.(registry.Result)
	if !ok {
		return registry.Result{}, api.E(op, api.Internal, "", fmt.Errorf("the core answered %T", answer))
	}
	return result, nil
}

// Watch sends what is under the prefix, then every change of it. A key that changes
// again before its watcher has looked is sent as it is then.
func (s storeService) Watch(r *apiv1.StoreWatchRequest, stream grpc.ServerStreamingServer[apiv1.StoreEntry]) error {
	const op = "store.watch"
	l := s.master.leading.Load()
	if l == nil {
		return s.master.notLeader(op)
	}
	return outbox.SendUntil(l.serving(), op, func(slow *outbox.Patience) error { return s.watch(l, slow, r, stream) })
}

func (s storeService) watch(l *leader, slow *outbox.Patience, r *apiv1.StoreWatchRequest, stream grpc.ServerStreamingServer[apiv1.StoreEntry]) error {
	id := api.FrameworkID(r.GetSession().GetFrameworkId())
	if err := l.stores.join(id); err != nil {
		return err
	}
	defer l.stores.leave(id)
	ctx := stream.Context()
	sent := map[string]uint64{}
	version, marked := uint64(0), !r.GetMarkComplete()
	for first := true; ; first = false {
		news := l.stores.wait(id) // before looking, so that nothing is missed
		changed, next, err := s.changes(ctx, l, r, sent, version, first)
		if err != nil {
			return err
		}
		version = next
		left := len(changed) // to send; what has changed again stays left, and news come of it
		for len(changed) > 0 {
			var entries []*apiv1.StoreEntry
			if entries, changed, err = s.sendFirst(ctx, l, slow, r, stream, changed); err != nil {
				return err
			}
			left -= len(entries)
			for _, entry := range entries {
				if sent[entry.GetKey()] = entry.GetVersion(); entry.GetDeleted() {
					delete(sent, entry.GetKey())
				}
			}
		}
		if !marked && left == 0 {
			marked = true
			mark := &apiv1.StoreEntry{Version: version, Complete: true}
			if err := slow.During(func() error { return stream.Send(mark) }); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.over:
			return s.master.notLeader("store.watch")
		case <-news:
		}
	}
}

// sendFirst sends the first of what has changed when it is this watch's turn, which lasts until gRPC has let go of it: of
// all that watch by one connection and do not read, few hold values that the store itself may have no more.
func (s storeService) sendFirst(ctx context.Context, l *leader, slow *outbox.Patience, r *apiv1.StoreWatchRequest,
	stream grpc.ServerStreamingServer[apiv1.StoreEntry], changed []*apiv1.StoreEntry) (entries, rest []*apiv1.StoreEntry, err error) {
	leave, ok := intake.SenderOf(ctx).SendValues(ctx, l.over)
	if !ok {
		return nil, nil, l.notSent(ctx, "store.watch")
	}
	all := newLending(leave) // also of one who is cut off: what gRPC has of it stays until its connection ends
	defer all.lent()
	if entries, rest, err = s.values(ctx, l, r, changed); err != nil {
		return nil, nil, err
	}
	for _, entry := range entries {
		lent := all.lend(entry)
		if err := slow.During(func() error { return stream.SendMsg(lent) }); err != nil {
			lent.Back()
			return nil, nil, err
		}
	}
	return entries, rest, slow.During(func() error {
		select {
		case <-all.lent():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-l.over:
			return s.master.notLeader("store.watch")
		}
	})
}

// watchBytesMax is how much of what has changed a watcher holds while it sends it, or one value: values that are
// replaced meanwhile are kept for nobody else.
const watchBytesMax = 64 << 10

// changes compares the store with what was sent, unless its version says that nothing has changed. It returns the
// keys and versions of what has, in the order in which it did.
func (s storeService) changes(ctx context.Context, l *leader, r *apiv1.StoreWatchRequest, sent map[string]uint64, version uint64, first bool) (
	changed []*apiv1.StoreEntry, next uint64, err error) {
	err = s.look(ctx, l, r, func(f registry.Framework) {
		next = f.StoreVersion
		if !first && next == version {
			return
		}
		for _, key := range keysUnder(f, r.GetPrefix()) {
			if entry := f.Store[key]; sent[key] != entry.Version {
				changed = append(changed, &apiv1.StoreEntry{Key: key, Version: entry.Version})
			}
		}
		for key := range sent {
			if _, there := f.Store[key]; !there {
				changed = append(changed, &apiv1.StoreEntry{Key: key, Version: next, Deleted: true})
			}
		}
	})
	slices.SortStableFunc(changed, func(a, b *apiv1.StoreEntry) int { return int(a.Version) - int(b.Version) })
	return changed, next, err
}

// values are those of the first that have changed.
func (s storeService) values(ctx context.Context, l *leader, r *apiv1.StoreWatchRequest, changed []*apiv1.StoreEntry) (entries, rest []*apiv1.StoreEntry, err error) {
	err = s.look(ctx, l, r, func(f registry.Framework) { entries, rest = firstValues(f, changed) })
	return entries, rest, err
}

// firstValues are about watchBytesMax. What has changed again meanwhile is left out: the next look at the store
// finds it.
func firstValues(f registry.Framework, changed []*apiv1.StoreEntry) (entries, rest []*apiv1.StoreEntry) {
	bytes := 0
	for i, one := range changed {
		entry, there := f.Store[one.GetKey()]
		switch {
		case one.GetDeleted() == there || there && entry.Version != one.GetVersion():
			continue
		case !there:
			entries = append(entries, one)
			continue
		}
		if bytes += len(entry.Value); bytes > watchBytesMax && len(entries) > 0 {
			return entries, changed[i:]
		}
		entries = append(entries, entryOf(one.GetKey(), entry))
	}
	return entries, nil
}

// look reads the store in the leader's loop.
func (s storeService) look(ctx context.Context, l *leader, r *apiv1.StoreWatchRequest, read func(registry.Framework)) error {
	const op = "store.watch"
	var refused error
	err := l.read(ctx, op, func(c view.Cluster, _ time.Time) {
		var f registry.Framework
		if f, refused = owner(ctx, c.Registry, op, r.GetSession()); refused == nil {
			read(f)
		}
	})
	return errors.Join(err, refused)
}

// storeWriteBytesMax bounds the writes to stores that are on their way to the quorum, so
// that they fill neither its queue nor the time between two commits of others; more wait.
// A small one counts as storeWriteBytesMin.
const (
	storeWriteBytesMax = 4 << 20
	storeWriteBytesMin = 32 << 10
)

// writeStore is request, for a write of so many bytes. These count as under way until the quorum has answered, also
// when the caller does not wait any more.
func (l *leader) writeStore(ctx context.Context, op string, action core.StoreWrite, bytes int) (any, error) {
	weight := min(max(bytes, storeWriteBytesMin), storeWriteBytesMax)
	if !l.writes.Take(ctx, l.over, intake.SenderOf(ctx), weight) {
		return nil, l.notSent(ctx, op)
	}
	reply := make(chan core.Reply, 1)
	arrived := l.requested(ctx, action, reply)
	arrived.bytes = bytes
	if !l.send(ctx, l.inbox.Stores, arrived) {
		l.writes.Give(weight)
		return nil, l.notSent(ctx, op)
	}
	r, came := l.replied(ctx, reply)
	if came {
		l.writes.Give(weight)
		return r.Answer, asError(r.Err)
	}
	l.beside(func() {
		defer l.writes.Give(weight)
		select {
		case <-reply:
		case <-l.over:
		}
	})
	return nil, l.noReply(ctx, op)
}
