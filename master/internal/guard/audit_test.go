package guard

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// TestNoSecretIsWrittenDown: what the protocol marks as secret is left out of a line, and nothing else is.
func TestNoSecretIsWrittenDown(t *testing.T) {
	request := &apiv1.RotateAuthorityRequest{Certificate: []byte("seen"), PrivateKey: []byte("hidden")}
	written, is := withoutSecrets(request).(*apiv1.RotateAuthorityRequest)
	if !is || string(written.GetCertificate()) != "seen" || len(written.GetPrivateKey()) > 0 {
		t.Errorf("what is written down of it is %v", written)
	}
	if string(request.GetPrivateKey()) != "hidden" {
		t.Error("the request itself has lost it")
	}
}

// letIn is the context of a call that was let in.
func letIn(t *testing.T, g *Guard, call string) context.Context {
	t.Helper()
	ctx, err := g.Admit(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

func newGuard(t *testing.T, dir string) *Guard {
	t.Helper()
	g, err := New(Access{}, dir, zerolog.Nop(), nil, func() uint64 { return 7 }, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestChangesOfAClusterThatAsksNobody: the caller is "anybody", and everything else is known, also after a restart. A
// page of the longest lines is no larger than a message may be.
func TestChangesOfAClusterThatAsksNobody(t *testing.T) {
	const call = "/tender.v1.OperatorService/SetMaintenance"
	dir := t.TempDir()
	g := newGuard(t, dir)
	request := &apiv1.SetMaintenanceRequest{}
	for range 350 {
		request.AgentIds = append(request.AgentIds, "agent-00")
	}
	for range 300 {
		g.Done(letIn(t, g, call), request, api.E("agent.maintenance", api.NotFound, strings.Repeat("x", 100_000), nil))
	}
	g.Done(letIn(t, g, call), &apiv1.SetMaintenanceRequest{AgentIds: []string{"a1"}}, nil)
	g.Done(letIn(t, g, call), &apiv1.SetMaintenanceRequest{AgentIds: []string{"a1"}}, api.E("agent.maintenance", api.NotLeader, "m2", nil)) // see there
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	g = newGuard(t, dir)
	defer g.Close()
	items := 0
	for r := (&apiv1.ListChangesRequest{On: "agent/agent-00"}); items == 0 || r.PageToken != ""; {
		page, err := g.Changes("m1", r)
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(page); size > changesBytesMax {
			t.Fatalf("a page has %d bytes", size)
		}
		for _, item := range page.GetItems() {
			if item.GetResult() != "not found" || len(item.GetWhy()) > 5000 || len(item.GetObjects()) != 1 {
				t.Fatalf("it has %s, %d bytes of why, %d objects", item.GetResult(), len(item.GetWhy()), len(item.GetObjects()))
			}
		}
		items += len(page.GetItems())
		r.PageToken = page.GetNextPageToken()
	}
	page, err := g.Changes("m1", &apiv1.ListChangesRequest{On: "agent/a1"})
	if err != nil || len(page.GetItems()) != 1 || items != 300 {
		t.Fatalf("%d items, and %v, %v", items, page, err)
	}
	if item := page.GetItems()[0]; item.GetWho() != "anybody" || item.GetCall() != call || item.GetResult() != "ok" || item.GetIndex() != 7 ||
		item.GetRequest() != `{"agent_ids":["a1"]}` || item.GetMasterId() != "m1" {
		t.Errorf("it is told as %v", item)
	}
}
