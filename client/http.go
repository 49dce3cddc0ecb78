package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
)

// Answer is what a master or an agent answers at its HTTP port.
type Answer struct {
	Body   []byte
	Header http.Header
}

// answerBytesMax is how much of an answer is read; more is an error. 10,000 tasks of an agent are 4 MiB.
const answerBytesMax = 64 << 20

// GetFromMaster asks a master at the address of its HTTP port for a path such as "/metrics", as whom this client is. An
// answer that is no success is an error: Denied, or Unavailable.
func (c *Client) GetFromMaster(ctx context.Context, address, path string) (Answer, error) {
	return ask(ctx, http.MethodGet, c.config.Dial, address, path, "")
}

// GetFromAgent asks an agent in the same way, with a ticket of [Client.ReadTicket] or [Client.ExecTicket], or "".
func (c *Client) GetFromAgent(ctx context.Context, address, path, ticket string) (Answer, error) {
	return ask(ctx, http.MethodGet, c.config.DialAgent, address, path, ticket)
}

// PostToAgent has an agent do something, such as "/v1/images/prune", with a ticket of [Client.ExecTicket].
func (c *Client) PostToAgent(ctx context.Context, address, path, ticket string) (Answer, error) {
	return ask(ctx, http.MethodPost, c.config.DialAgent, address, path, ticket)
}

func ask(ctx context.Context, method string, dial func(context.Context, string) (net.Conn, error), address, path, ticket string) (Answer, error) {
	op := "client." + strings.ToLower(method)
	if CheckAddress(address) != nil {
		return Answer{}, api.E(op, api.Unavailable, "", errors.New("it has no HTTP port"))
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, nil)
	if err != nil {
		return Answer{}, api.E(op, api.Invalid, path, err)
	}
	if ticket != "" {
		trust.ShowTicket(request, ticket)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return dial(ctx, address)
	}}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return Answer{}, api.E(op, api.Unavailable, address, err)
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is no longer wanted
	answer := Answer{Header: response.Header}
	answer.Body, err = io.ReadAll(io.LimitReader(response.Body, answerBytesMax+1))
	switch {
	case err != nil:
		return answer, api.E(op, api.Unavailable, address, err)
	case len(answer.Body) > answerBytesMax:
		return answer, api.E(op, api.Limit, address, errors.New("its answer is longer than 64 MiB"))
	case response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden:
		return answer, api.E(op, api.Denied, "", errors.New(refusalIn(answer.Body)))
	case response.StatusCode != http.StatusOK:
		return answer, api.E(op, api.Unavailable, "", errors.New(refusalIn(answer.Body)))
	}
	return answer, nil
}

// refusalIn returns the sentence of an answer that refuses: the message where it is JSON.
func refusalIn(body []byte) string {
	var refusal struct{ Error struct{ Message string } }
	if json.Unmarshal(body, &refusal) == nil && refusal.Error.Message != "" {
		return refusal.Error.Message
	}
	return strings.Join(strings.Fields(string(body[:min(len(body), 400)])), " ")
}
