package watching

import (
	"context"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
)

// This file counts who uses a log, so that nothing is encoded when nobody watches.

// Wanted returns a context that ends when nobody has used the log for a while, and waits until somebody does. It returns
// nil when ctx has ended.
func (l *Log) Wanted(ctx context.Context) (context.Context, context.CancelFunc) {
	for {
		l.mu.Lock()
		users, news := l.users, l.news
		l.mu.Unlock()
		if users > 0 {
			break
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, nil
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for l.stillUsed(ctx) {
		}
	}()
	return ctx, cancel
}

// stillUsed waits for a change of the users, or for the end of the idle time; false when the log is not used any more.
func (l *Log) stillUsed(ctx context.Context) bool {
	l.mu.Lock()
	users, left, news := l.users, l.left, l.news
	l.mu.Unlock()
	var idle <-chan time.Time
	if users == 0 {
		rest := time.Until(left.Add(idleFor))
		if rest <= 0 {
			return false
		}
		timer := time.NewTimer(rest)
		defer timer.Stop()
		idle = timer.C
	}
	select {
	case <-news:
		return true
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}

// join begins to use the log.
func (l *Log) join() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == watchersMax {
		return api.E("watch", api.Limit, "", fmt.Errorf("%d watch already, which is the most", watchersMax))
	}
	if l.users++; l.users == 1 {
		l.tell()
	}
	return nil
}

func (l *Log) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users == 0 {
		l.left = time.Now()
		l.tell()
	}
}
