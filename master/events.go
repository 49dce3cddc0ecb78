package master

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/history"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/watching"
	"github.com/tenderhq/tender/master/registry"
)

// This file keeps what happens on this master's disk, and lists it.

// History says how much of what happens a master keeps on its disk. Zero fields mean the defaults.
type History struct {
	// Bytes bounds each of its two rings, one for what is notable and one for routine. At least 8 MiB. Default 256 MiB.
	Bytes int64
	// Age is how long events are kept, as far as there is room. Default 30 days.
	Age time.Duration
}

// historyFolder is below the data folder.
const historyFolder = "history"

// historyBytesMin leaves room for a few segments of each share.
const historyBytesMin = 8 << 20

func (h History) check() error {
	switch {
	case h.Bytes != 0 && h.Bytes < historyBytesMin:
		return fmt.Errorf("each ring of the history may take %d bytes; it must be at least %d", h.Bytes, historyBytesMin)
	case h.Age < 0:
		return fmt.Errorf("the history's age is %v; it must not be negative", h.Age)
	}
	return nil
}

// openHistory opens the history of the data folder. A master whose history can't be read goes on without one.
func (w *watchLogs) openHistory() {
	if w.config.DataDir == "" {
		w.noHistory = api.E("events.list", api.Unsupported, w.config.ID, errors.New("this master keeps no history, because it has no data folder"))
		return
	}
	folder := filepath.Join(w.config.DataDir, historyFolder)
	opened, err := history.Open(history.Config{Folder: folder, Bytes: w.config.History.Bytes, Age: w.config.History.Age, Logger: w.log})
	if err != nil {
		w.noHistory = api.E("events.list", api.Unavailable, w.config.ID, fmt.Errorf("the history in %s can't be read: %w", folder, err))
		w.log.Error().Err(err).Str("folder", folder).Msg("the history can't be read, and this master goes on without one")
		return
	}
	w.history = opened
}

// historyAgain is how long keeping the history rests when its stream has broken.
const historyAgain = 200 * time.Millisecond

// keepHistory writes what happens until ctx ends. (Protocol rule R70.)
func (w *watchLogs) keepHistory(ctx context.Context) {
	h := w.history
	if h == nil {
		return
	}
	var following sync.WaitGroup
	following.Go(func() {
		for ctx.Err() == nil {
			var after *apiv1.Cursor
			if last := h.Last(); !last.IsZero() {
				after = last.Proto()
			}
			_ = w.events.Follow(ctx, after, w.raft.Read, func(packed []byte, missed string) {
				if missed != "" {
					h.Missed(time.Now(), missed)
				}
				h.Add(packed)
			})
			pause.For(ctx, historyAgain)
		}
	})
	if err := h.Run(ctx); err != nil {
		w.log.Warn().Err(err).Msg("the end of the history was not written")
	}
	following.Wait()
}

// ListEvents lists what has happened, the newest first, as this master keeps it.
func (s watchService) ListEvents(ctx context.Context, r *apiv1.ListEventsRequest) (*apiv1.ListEventsResponse, error) {
	if s.watches.noHistory != nil {
		return nil, s.watches.noHistory
	}
	query, err := eventsQuery(r)
	if err != nil {
		return nil, err
	}
	if by := guard.ScopeOf(ctx); !by.Everything {
		query.Sees = func(e *apiv1.Event) (sees bool) {
			s.raft.Read(func(state *registry.State) { sees = watching.Sees(e, by, state) })
			return sees
		}
	}
	page, err := s.watches.history.Select(query)
	if err != nil {
		return nil, api.E("events.list", api.Unavailable, s.config.ID, fmt.Errorf("the history can't be read: %w", err))
	}
	answer := &apiv1.ListEventsResponse{Items: page.Events, MasterId: string(s.config.ID), Gaps: page.Gaps}
	if !page.Next.IsZero() {
		answer.NextPageToken = fmt.Sprintf("%d.%d.%d", page.Next.Term.Epoch, page.Next.Term.Number, page.Next.Number)
	}
	return answer, nil
}

// eventsQuery converts the request for a page to a query.
func eventsQuery(r *apiv1.ListEventsRequest) (q history.Query, err error) {
	const op = "events.list"
	q = history.Query{Of: r.GetOf(), Kinds: r.GetKinds(), By: r.GetBy(), NotableOnly: r.GetNotableOnly(), Limit: int(r.GetLimit())}
	if q.Limit <= 0 || q.Limit > api.PageItemsMax {
		q.Limit = api.PageItemsMax
	}
	if _, name, named := strings.Cut(q.Of, "/"); q.Of != "" && (!named || name == "") {
		return q, api.E(op, api.Invalid, "of", fmt.Errorf("%.80q is not KIND/NAME", q.Of))
	}
	if err := change.CheckKinds(op, q.Kinds); err != nil {
		return q, err
	}
	if token := r.GetPageToken(); token != "" {
		if _, err := fmt.Sscanf(token, "%d.%d.%d", &q.Before.Term.Epoch, &q.Before.Term.Number, &q.Before.Number); err != nil {
			return q, api.E(op, api.Invalid, "page_token", fmt.Errorf("%.40q is no token of a page", token))
		}
	}
	q.Since, q.Until, err = wire.Span(op, r.GetSince(), r.GetUntil())
	return q, err
}
