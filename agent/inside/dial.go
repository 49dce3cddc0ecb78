package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tenderhq/tender/api"
)

// whyBytesMax of an agent's refusal are shown.
const whyBytesMax = 400

// Dial asks an agent for a session inside a task. What comes back speaks frames in both directions.
func Dial(ctx context.Context, client *http.Client, address string, task api.TaskRef) (io.ReadWriteCloser, error) {
	target := url.URL{Scheme: "http", Host: address, Path: "/v1/exec/" + string(task.Framework) + "/" + string(task.Task)}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", Upgrade)
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if both, is := response.Body.(io.ReadWriteCloser); is && response.StatusCode == http.StatusSwitchingProtocols {
		return both, nil
	}
	defer func() { _ = response.Body.Close() }() // what is of use was read
	why, _ := io.ReadAll(io.LimitReader(response.Body, whyBytesMax))
	if response.StatusCode == http.StatusNotFound && strings.HasPrefix(string(why), "404 page not found") {
		return nil, errors.New("the agent is of an older version, which runs no commands inside tasks")
	}
	return nil, fmt.Errorf("the agent answers %s: %s", response.Status, strings.TrimSpace(string(why)))
}
