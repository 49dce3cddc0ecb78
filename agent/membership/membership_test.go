package membership_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/agent/membership"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/testing/memnet"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// signer signs certificates as a master would, for agents that come back.
type signer struct {
	apiv1.UnimplementedTrustServiceServer
	authority *trust.Authority
}

func (s signer) Sign(_ context.Context, r *apiv1.SignRequest) (*apiv1.SignResponse, error) {
	identity, err := s.authority.Recognise(r.GetEnded(), r.GetRequest(), time.Now())
	if err != nil {
		return nil, err
	}
	leaf, err := s.authority.SignRequest(r.GetRequest(), identity, time.Now())
	if err != nil {
		return nil, err
	}
	return &apiv1.SignResponse{Certificate: leaf.Raw, Roots: [][]byte{s.authority.Anchors().Root.Raw}}, nil
}

// TestAnAgentWhoseCertificateHasEndedStaysWhoItWas: without a token it says what to do. With one it gets another
// certificate with the same name, also at its next start.
func TestAnAgentWhoseCertificateHasEndedStaysWhoItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority, err := trust.NewKey().Authority()
		if err != nil {
			t.Fatal(err)
		}
		issue := func(kind trust.Kind, name string) *trust.Pass {
			pass, err := authority.Issue(trust.Identity{Kind: kind, Name: name}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return pass
		}
		network := memnet.New()
		config := membership.Config{
			Folder: t.TempDir(), Masters: []string{"m1:5060"}, Dial: network.From("a1").Dial,
			Random: func() string { return "n2" }, Admitted: func() (api.AgentID, error) { return "agent-7", nil },
		}
		if err := trust.WritePass(filepath.Join(config.Folder, membership.PassFile), issue(trust.Agent, "n1")); err != nil {
			t.Fatal(err)
		}
		pause.For(t.Context(), 31*24*time.Hour)
		_, err = membership.Prove(t.Context(), config)
		if !api.Is(err, api.Denied) || !strings.Contains(err.Error(), "ended at 2000-01-31") || !strings.Contains(err.Error(), "once more with --join FILE") {
			t.Errorf("without a token: %v", err)
		}
		listener, err := network.Listen("m1:5060")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer(grpc.Creds(transport.ServerCredentials(trust.NewHolder(issue(trust.Master, "m1")), trust.Door{Joiners: true})))
		apiv1.RegisterTrustServiceServer(server, signer{authority: authority})
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		config.Token = trust.NewToken(authority.Digest()).String()
		back, err := membership.Prove(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		if back.Nonce() != "n1" || !back.Holder().Pass().Ends().After(time.Now()) {
			t.Errorf("it is %s until %v", back.Nonce(), back.Holder().Pass().Ends())
		}
		config.Token = ""
		if again, err := membership.Prove(t.Context(), config); err != nil || again.Nonce() != "n1" {
			t.Errorf("at its next start: %v", err)
		}
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// TestAnAgentThatStopsWhileItBeginsAnew loses nothing: it does not report that it is gone, and it joins at its next
// start.
func TestAnAgentThatStopsWhileItBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := trust.NewKey()
		authority, err := key.Authority()
		if err != nil {
			t.Fatal(err)
		}
		pass, err := authority.Issue(trust.Identity{Kind: trust.Agent, Name: "n1"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		token, err := key.FirstToken()
		if err != nil {
			t.Fatal(err)
		}
		config := membership.Config{
			Folder: t.TempDir(), Masters: []string{"m1:5060"}, Dial: memnet.New().From("a1").Dial, Token: token.String(),
			Random: func() string { return "n2" }, Admitted: func() (api.AgentID, error) { return "", nil },
		}
		file := filepath.Join(config.Folder, membership.PassFile)
		if err := trust.WritePass(file, pass); err != nil {
			t.Fatal(err)
		}
		member, err := membership.Prove(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute) // no master answers
		defer stop()
		if err := member.BeginAnew(ctx); err == nil || api.Is(err, api.Removed) {
			t.Errorf("it ends with %v", err)
		}
		if kept, err := trust.ReadPass(file); err != nil || kept == nil || kept.IsSigned() {
			t.Errorf("its folder has no key to join by: %v", err)
		}
	})
}
