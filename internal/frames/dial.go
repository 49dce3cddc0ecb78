package frames

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
)

// whyBytesMax is how many bytes of an agent's refusal are shown.
const whyBytesMax = 400

// Dial asks an agent for a session inside a task, and shows a ticket of the leader if there is one. Both sides speak in
// frames on the connection that it returns.
func Dial(ctx context.Context, client *http.Client, address string, task api.TaskRef, ticket string) (io.ReadWriteCloser, error) {
	target := url.URL{Scheme: "http", Host: address, Path: "/v1/exec/" + string(task.Framework) + "/" + string(task.Task)}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", Upgrade)
	trust.ShowTicket(request, ticket)
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if both, is := response.Body.(io.ReadWriteCloser); is && response.StatusCode == http.StatusSwitchingProtocols {
		return both, nil
	}
	defer func() { _ = response.Body.Close() }() // what is needed was read
	why, _ := io.ReadAll(io.LimitReader(response.Body, whyBytesMax))
	if response.StatusCode == http.StatusForbidden {
		return nil, api.E("task.exec", api.Denied, task.String(), errors.New(strings.TrimSpace(string(why))))
	}
	return nil, fmt.Errorf("the agent answers %s: %s", response.Status, strings.TrimSpace(string(why)))
}
