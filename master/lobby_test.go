package master_test

import (
	"context"
	"net"
	"net/http"

	"github.com/tenderhq/tender/internal/trust"
)

// metrics asks for a master's metrics as a person, and returns the status of the answer.
func (l *lobby) metrics(name, address string) int {
	l.t.Helper()
	dial := l.holderOf(l.key, trust.Identity{Kind: trust.Person, Name: name}).Dialer(l.net.From("client").Dial)
	own := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) }}
	defer own.CloseIdleConnections()
	request, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		l.t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: own}).Do(request)
	if err != nil {
		l.t.Fatal(err)
	}
	defer answer.Body.Close()
	if later := answer.Header.Get("Retry-After"); answer.StatusCode == http.StatusServiceUnavailable && later == "" {
		l.t.Error("the metrics are not there yet, and nobody is told when to come back")
	}
	return answer.StatusCode
}
