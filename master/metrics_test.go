package master

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/view"
)

// TestCallsAreCountedByHowTheyEnd: what its caller has given up is no mistake of ours.
func TestCallsAreCountedByHowTheyEnd(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, "ok"},
		{api.E("task.kill", api.NotFound, "t1", nil), "not found"},
		{wire.Status(api.E("task.kill", api.NotFound, "t1", nil)), "not found"},
		{errors.New("our own"), "internal"},
		{context.Canceled, "canceled"},
		{fmt.Errorf("while it was sent: %w", context.Canceled), "canceled"},
		{status.Error(codes.Canceled, "context canceled"), "canceled"},
		{wire.Status(context.Canceled), "canceled"},
		{wire.Error(context.Canceled), "canceled"},
		{context.DeadlineExceeded, "unknown outcome"},
	} {
		if got := outcome(test.err); got != test.want {
			t.Errorf("%v counts as %q instead of %q", test.err, got, test.want)
		}
	}
}

// TestHTTPSaysWhenToComeBack: in whole seconds, as the header has it, and only where time heals.
func TestHTTPSaysWhenToComeBack(t *testing.T) {
	for _, test := range []struct {
		after time.Duration
		want  string
	}{{0, ""}, {time.Second, "1"}, {1500 * time.Millisecond, "2"}} {
		answer := httptest.NewRecorder()
		writeError(answer, wire.Status(api.E("master.call", api.Limit, "etl", errors.New("too many calls")).RetryIn(test.after)))
		if got := answer.Header().Get("Retry-After"); got != test.want || answer.Code != 429 {
			t.Errorf("%v: %d with Retry-After %q instead of %q", test.after, answer.Code, got, test.want)
		}
	}
}

// TestPrincipalsAreCountedTogetherBeyondTheFirst: what those have together that metrics do not name is one line.
func TestPrincipalsAreCountedTogetherBeyondTheFirst(t *testing.T) {
	all := make(map[string]view.Tally)
	for i := range 150 {
		all[fmt.Sprint("p", i)] = view.Tally{Frameworks: 1, Tasks: 2, Shapes: 3, Offers: 4, Filters: 5}
	}
	named, sum := newMetrics().holdings(all), view.Tally{}
	for _, has := range named { // order: irrelevant because it sums
		sum = sum.Plus(has)
	}
	if want := (view.Tally{Frameworks: 150, Tasks: 300, Shapes: 450, Offers: 600, Filters: 750}); sum != want || len(named) != 101 {
		t.Errorf("%d lines with %+v instead of %+v", len(named), sum, want)
	}
}

// TestRevocableIsInBaseUnits: cores and bytes, as all resources in metrics.
func TestRevocableIsInBaseUnits(t *testing.T) {
	got := make(map[string]float64)
	collectCapacity(func(desc *prometheus.Desc, value float64, labels ...string) {
		if desc == gapGauge {
			got[labels[0]] = value
		}
	}, view.Counts{Revocable: api.Scalars(1.5, 64)})
	if want := map[string]float64{"cpus": 1.5, "mem": 64 << 20}; !maps.Equal(got, want) {
		t.Errorf("revocable are %v, not %v", got, want)
	}
}
