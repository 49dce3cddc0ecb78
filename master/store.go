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
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/intake"
	"github.com/tenderhq/tender/master/internal/outbox"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// storeService stores small values for frameworks. A read uses the leader's copy after a majority has confirmed that it
// still leads, so it sees every write that was answered before.
type storeService struct {
	apiv1.UnimplementedStoreServiceServer
	leading *leadership
}

// owner returns the framework whose store a call is about, if the call's session is the current one. (Protocol rule
// R5.)
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

// read reads a framework's store in the leader's loop. The function sure says whether it is already known that the
// leadership of a term led when the call came; if not, a majority must confirm it.
func (s storeService) read(ctx context.Context, op string, session *apiv1.StoreSession, sure func(api.Term) bool, look func(registry.Framework, api.Term)) error {
	l, err := s.leading.mine(op)
	if err != nil {
		return err
	}
	if !sure(l.lead.Term) {
		if err := l.lead.Verify(ctx); err != nil {
			return s.leading.notLeader(op)
		}
	}
	var refused error
	err = l.read(ctx, op, func(c view.Cluster, _ time.Time) {
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

// listBytesMax keeps a page below the size limit of a message. An item that alone is larger than that comes alone.
const listBytesMax = api.MessageBytesMax / 2

// List returns a page of a list. The page token names the term of the leadership that made the page before. If that
// leadership still leads, as far as it knows, this page is not older than the one before. Then no majority needs to
// confirm it again.
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

// tokenMark begins a page's token, and ends the term in it. A token of an older master is only the key.
const tokenMark = "\x00"

// tokenOf returns a token with the last key of a page and the term of the leadership that made it.
func tokenOf(term api.Term, key string) string { return tokenMark + term.String() + tokenMark + key }

// splitToken parses a token; the term is "" when the token is only a key.
func splitToken(token string) (term, key string) {
	rest, marked := strings.CutPrefix(token, tokenMark)
	term, key, whole := strings.Cut(rest, tokenMark)
	if !marked || !whole {
		return "", token
	}
	return term, key
}

// listStore returns a page of the keys after the given one. The page's token is its last key.
func listStore(f registry.Framework, r *apiv1.StoreListRequest, after string) *apiv1.StoreListResponse {
	limit := int(r.GetLimit())
	if limit <= 0 || limit > api.PageItemsMax {
		limit = api.PageItemsMax
	}
	answer := &apiv1.StoreListResponse{}
	bytes := 0
	for _, key := range keysBehind(f, r.GetPrefix(), after, limit+1) { // one more shows whether there is a next page
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

// keysBehind returns the first keys under the prefix that come after the given one, in order, at most so many. It looks
// at all keys of the store but sorts only few, because reading a large store takes many pages, all in the leader's
// loop.
func keysBehind(f registry.Framework, prefix, after string, most int) []string {
	var keys []string
	last := ""                 // no key after this one can be among the first; "" = not known yet
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

// Write commits changes under the scheduler's own identity, so that a repeated write is applied once (R17).
func (s storeService) Write(ctx context.Context, r *apiv1.StoreWriteRequest) (*apiv1.StoreWriteResponse, error) {
	const op = "store.write"
	writes, err := storeWrites(r)
	if err != nil {
		return nil, api.E(op, api.Invalid, r.GetSession().GetFrameworkId(), err)
	}
	l, err := s.leading.mine(op)
	if err != nil {
		return nil, err
	}
	replies, err := l.writeStore(ctx, op, writes, proto.Size(r))
	if err != nil {
		return nil, err
	}
	return &apiv1.StoreWriteResponse{Results: wire.Each(replies, func(reply core.Reply) *apiv1.StoreWritten {
		result, _ := reply.Answer.(registry.Result) // none when the core has refused the write
		return &apiv1.StoreWritten{Version: result.Version, Error: wire.ErrorToProto(reply.Err)}
	})}, nil
}

// storeWrites reads the writes of a request.
func storeWrites(r *apiv1.StoreWriteRequest) (core.StoreWrites, error) {
	session := r.GetSession()
	if err := api.CheckID("instance", session.GetInstance()); err != nil {
		return nil, err
	}
	if n := len(r.GetWrites()); n == 0 || n > api.StoreLanesMax {
		return nil, fmt.Errorf("a call has 1 to %d writes, not %d", api.StoreLanesMax, n)
	}
	writes := make(core.StoreWrites, len(r.GetWrites()))
	for i, one := range r.GetWrites() {
		if one.GetWrite() == 0 || one.GetLane() >= api.StoreLanesMax {
			return nil, fmt.Errorf("a write names its scheduler's instance and a lane below %d, and is numbered from 1", api.StoreLanesMax)
		}
		writes[i] = core.StoreWrite{Instance: api.Nonce(session.GetInstance()), Lane: one.GetLane(), Counter: one.GetWrite()}
		framework := api.FrameworkID(session.GetFrameworkId())
		if one.GetDelete() {
			writes[i].Change = registry.DeleteEntry{Framework: framework, Session: session.GetSession(), Key: one.GetKey(), IfVersion: one.IfVersion}
			continue
		}
		writes[i].Change = registry.PutEntry{
			Framework: framework, Session: session.GetSession(),
			Key: one.GetKey(), Value: one.GetValue(), IfVersion: one.IfVersion, KeepFree: uint64(one.GetKeepFreePercent()),
		}
	}
	return writes, nil
}

// Watch sends the entries under the prefix, then every change of them. When a key changes again before the watcher has
// looked, only its latest value is sent.
func (s storeService) Watch(r *apiv1.StoreWatchRequest, stream grpc.ServerStreamingServer[apiv1.StoreEntry]) error {
	const op = "store.watch"
	l, err := s.leading.mine(op)
	if err != nil {
		return err
	}
	return outbox.SendUntil(l.streams(), op, func(slow *outbox.Patience) error { return s.watch(l, slow, r, stream) })
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
		left := len(changed) // to send; a key that has changed again stays in left, and news of that change will come
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
		case <-l.over():
			return s.leading.notLeader("store.watch")
		case <-news:
		}
	}
}

// sendFirst sends the first changed entries when it is this watch's turn. The turn lasts until gRPC has let go of the
// values. So when the watchers of one connection do not read, only few of them hold values that the store itself may
// not have any more.
func (s storeService) sendFirst(ctx context.Context, l *leader, slow *outbox.Patience, r *apiv1.StoreWatchRequest,
	stream grpc.ServerStreamingServer[apiv1.StoreEntry], changed []*apiv1.StoreEntry) (entries, rest []*apiv1.StoreEntry, err error) {
	leave, ok := intake.SenderOf(ctx).SendValues(ctx, l.over())
	if !ok {
		return nil, nil, l.notSent(ctx, "store.watch")
	}
	all := newLending(leave) // also for a stream that is cut off: gRPC keeps its data until the connection ends
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
		case <-l.over():
			return s.leading.notLeader("store.watch")
		}
	})
}

// watchBytesMax bounds the bytes of changed values that a watcher holds while it sends them; a single value may be
// larger. Values that were replaced meanwhile are held only for this watcher.
const watchBytesMax = 64 << 10

// changes compares the store with what was sent, unless the store's version shows that nothing has changed. It returns
// the keys and versions of the changed entries, in the order in which they changed.
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

// values reads the values of the first changed entries.
func (s storeService) values(ctx context.Context, l *leader, r *apiv1.StoreWatchRequest, changed []*apiv1.StoreEntry) (entries, rest []*apiv1.StoreEntry, err error) {
	err = s.look(ctx, l, r, func(f registry.Framework) { entries, rest = firstValues(f, changed) })
	return entries, rest, err
}

// firstValues returns about watchBytesMax bytes of values, and the remaining changes. It leaves out entries that have
// changed again meanwhile, because the next look at the store finds them.
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

// storeWriteBytesMax bounds the bytes of store writes that are on their way to the quorum. Further writes wait. So
// these writes fill neither the queue to the quorum nor the time between two commits of other changes. A small write
// counts as storeWriteBytesMin, so at most 512 are on their way: all that two frameworks may write at a time.
const (
	storeWriteBytesMax = 4 << 20
	storeWriteBytesMin = 8 << 10
)

// writeStore makes the writes of a call, which have that many bytes, and returns the reply to each. The bytes count as
// under way until the quorum has answered, even if the caller no longer waits.
func (l *callers) writeStore(ctx context.Context, op string, writes core.StoreWrites, bytes int) ([]core.Reply, error) {
	weight := min(max(bytes, storeWriteBytesMin*len(writes)), storeWriteBytesMax)
	if !l.stores.writes.Take(ctx, l.over(), intake.SenderOf(ctx), weight) {
		return nil, l.notSent(ctx, op)
	}
	replies := make(chan core.Reply, len(writes))
	arrived, first := l.requested(ctx, writes, replies)
	arrived.bytes = bytes
	if !l.send(ctx, l.inbox.Stores, arrived) {
		l.stores.writes.Give(weight)
		return nil, l.notSent(ctx, op)
	}
	all := make([]core.Reply, len(writes))
	for answered := range writes {
		r, came := l.replied(ctx, replies)
		if !came {
			l.leading.beside.Go(func() { l.awaitWrites(replies, len(writes)-answered, weight) })
			return nil, l.noReply(ctx, op)
		}
		all[r.ID-first] = r
	}
	l.stores.writes.Give(weight)
	return all, nil
}

// awaitWrites gives the weight of writes back when the last of them are answered.
func (l *callers) awaitWrites(replies <-chan core.Reply, last, weight int) {
	defer l.stores.writes.Give(weight)
	for range last {
		select {
		case <-replies:
		case <-l.over():
			return
		}
	}
}
