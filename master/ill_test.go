package master_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
)

// metricsOf reads what a master counts.
func (h *house) metricsOf(m *running) string {
	h.t.Helper()
	dial := h.net.From("client").Dial
	transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) }}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(h.t.Context(), "GET", "http://"+m.HTTPAddr()+"/metrics", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(body)
}

// TestIllMastersAreCounted: the leader checks the other masters by itself, and counts those that have trouble.
func TestIllMastersAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 3)
		defer h.close()
		leader := h.leader()
		var follower api.MasterID
		for id := range h.masters {
			if id != leader.ID() {
				follower = id
			}
		}
		<-time.After(30 * time.Second)
		before := h.metricsOf(leader)
		h.stop(follower)
		<-time.After(30 * time.Second)
		after := h.metricsOf(leader)
		for metrics, want := range map[string]string{
			before: fmt.Sprintf("tender_master_ill{of=%q} 0", follower),
			after:  fmt.Sprintf("tender_master_ill{of=%q} 1", follower),
		} {
			if !strings.Contains(metrics, want) || !strings.Contains(metrics, fmt.Sprintf("tender_master_lag_entries{of=%q} ", follower)) {
				t.Errorf("no %s in\n%s", want, metrics)
			}
		}
		if !strings.Contains(after, "tender_raft_disk_failing 0") {
			t.Error("the disk is said to fail")
		}
	})
}
