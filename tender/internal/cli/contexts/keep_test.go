package contexts_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/testing/memnet"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/tender/internal/cli/contexts"
)

// signer signs for everybody who shows a certificate.
type signer struct {
	apiv1.UnimplementedTrustServiceServer
	authority *trust.Authority
}

func (s signer) Sign(ctx context.Context, r *apiv1.SignRequest) (*apiv1.SignResponse, error) {
	leaf, err := s.authority.SignRequest(r.GetRequest(), transport.CallerOf(ctx), time.Now())
	if err != nil {
		return nil, err
	}
	return &apiv1.SignResponse{Certificate: leaf.Raw, Roots: [][]byte{s.authority.Anchors().Root.Raw}}, nil
}

// TestACommandKeepsItsCertificateFromEnding: it is renewed as long as the command runs, and the next command has the
// new one. The context's own master is down, but another one was named.
func TestACommandKeepsItsCertificateFromEnding(t *testing.T) {
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
		listener, err := network.Listen("m2:5060")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer(grpc.Creds(transport.ServerCredentials(trust.NewHolder(issue(trust.Master, "m2")), trust.Door{})))
		apiv1.RegisterTrustServiceServer(server, signer{authority: authority})
		var running sync.WaitGroup
		running.Go(func() { _ = server.Serve(listener) })

		config := t.TempDir()
		folder := contexts.Folder(filepath.Join(config, "tender", "contexts"))
		first := issue(trust.Person, "ann")
		if err := folder.Write(contexts.Context{Name: "prod", Masters: []string{"m1:5060"}}, first); err != nil {
			t.Fatal(err)
		}
		found, err := contexts.Find(t.Context(), contexts.Wish{
			Context: "prod", Masters: []string{"m2:5060"}, Dial: network.From("ann").Dial,
			Lookup: func(name string) (string, bool) { return config, name == "XDG_CONFIG_HOME" },
		})
		if err != nil {
			t.Fatal(err)
		}
		keeping, stop := context.WithCancel(t.Context())
		running.Go(func() { found.Keep(keeping) })
		pause.For(t.Context(), 20*time.Hour)
		if now := found.Holder.Pass(); !now.Ends().After(first.Ends()) || now.Identity() != first.Identity() {
			t.Errorf("after 20 hours it shows %v until %v", now.Identity(), now.Ends())
		}
		kept, err := trust.ReadPass(filepath.Join(string(folder), "prod.pem"))
		if err != nil || !kept.Ends().After(first.Ends()) {
			t.Errorf("the next command has one until %v, %v", kept.Ends(), err)
		}
		stop()
		server.Stop()
		running.Wait()
	})
}
