package browser

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/master/registry"
)

// TestLoginsUnderWayAreBounded: one more is told to come back, and all are counted by what came of them.
func TestLoginsUnderWayAreBounded(t *testing.T) {
	entered, leave := make(chan struct{}, loginsMax), make(chan struct{})
	d := New(Config{
		Key: trust.NewKey(), Metrics: prometheus.NewRegistry(), Log: zerolog.Nop(),
		Principals: func() map[string]registry.Principal { return nil },
		LogIn: func(context.Context, trust.Token) (trust.Identity, time.Time, error) {
			select {
			case entered <- struct{}{}:
				<-leave
			default: // one too many
			}
			return trust.Identity{Kind: trust.Person, Name: "ann"}, time.Now().Add(time.Hour), nil
		},
	})
	token, err := trust.NewKey().FirstToken()
	if err != nil {
		t.Fatal(err)
	}
	logIn := func() *httptest.ResponseRecorder {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/login", strings.NewReader(url.Values{"token": {token.String()}}.Encode()))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		d.logIn(w, request)
		return w
	}
	answers := make(chan int, loginsMax)
	for range loginsMax {
		go func() { answers <- logIn().Code }()
	}
	for len(entered) < loginsMax {
		runtime.Gosched()
	}
	if one := logIn(); one.Code != http.StatusTooManyRequests || one.Header().Get("Retry-After") != "1" {
		t.Errorf("one more is answered with %d %v", one.Code, one.Header())
	}
	close(leave)
	for range loginsMax {
		if code := <-answers; code != http.StatusSeeOther {
			t.Errorf("one of those before is answered with %d", code)
		}
	}
	if ok, limit := testutil.ToFloat64(d.tried.WithLabelValues("ok")), testutil.ToFloat64(d.tried.WithLabelValues("limit")); ok != loginsMax || limit != 1 {
		t.Errorf("counted are %v and %v", ok, limit)
	}
}
