package trust_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// TestAPlainDoorKnowsWhoShowsACertificate: at one listener a TLS client is who its certificate says, a client in plain
// text is nobody, and a client that sends nothing holds up neither.
func TestAPlainDoorKnowsWhoShowsACertificate(t *testing.T) {
	c := newCluster(t)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		ConnContext: trust.WithConn,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, trust.Of(trust.FromConn(r.Context())).Kind.String())
		}),
	}
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(c.holder(trust.Agent, "a").Listener(inner, trust.Door{Strangers: true, Plain: true}))
	}()
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served //nolint:errcheck // it was closed
	}()
	silent, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ask := func(dial trust.Dial) string {
		browser := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) }}
		defer browser.CloseIdleConnections()
		answer, err := (&http.Client{Transport: browser}).Get("http://" + inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := ask(c.holder(trust.Person, "ann").Dialer(transport.DialTCP, trust.Agent)); got != "person" {
		t.Errorf("who shows the certificate of a person is %s", got)
	}
	if got := ask(transport.DialTCP); got != "nobody" {
		t.Errorf("who speaks plain text is %s", got)
	}
	if _, err := newCluster(t).holder(trust.Person, "eve").Dialer(transport.DialTCP, trust.Agent)(t.Context(), inner.Addr().String()); err == nil {
		t.Error("a person of another cluster takes the agent for one of its own")
	}
}
