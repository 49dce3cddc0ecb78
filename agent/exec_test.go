package agent

import (
	"net/http"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/frames"
	"github.com/tenderhq/tender/internal/protocol"
)

// No commands are run inside tasks where that is switched off. A page in a browser can run none anywhere.
func TestWhoMayRunCommandsInsideTasks(t *testing.T) {
	for _, most := range []int{0, 1} {
		master := newScript(t)
		config := testConfig(t, master.address)
		config.Listener = loopback(t)
		config.Enter, config.ExecMax = []string{"/nowhere/enter"}, most
		a := run(t, config)
		await(master, "registration", func(protocol.RegisterAgent) bool { return true })
		<-a.Ready()
		master.launch(command("t1", "exec sleep 1000"))
		master.status("t1", api.TaskRunning)
		ask := func(task, upgrade, site string) int {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.Address()+"/v1/exec/f1/"+task, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Connection", "Upgrade")
			request.Header.Set("Upgrade", upgrade)
			if site != "" {
				request.Header.Set("Sec-Fetch-Site", site)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			return response.StatusCode
		}
		for _, c := range []struct {
			task, upgrade, site string
			want                int
		}{
			{"t1", frames.Upgrade, "cross-site", http.StatusForbidden},
			{"t1", "websocket", "", http.StatusBadRequest},
			{"t2", frames.Upgrade, "", http.StatusNotFound},
			{"t1", frames.Upgrade, "", map[int]int{0: http.StatusForbidden, 1: http.StatusSwitchingProtocols}[most]},
		} {
			if got := ask(c.task, c.upgrade, c.site); got != c.want {
				t.Errorf("at most %d, task %s, upgrade %s, site %q: %d", most, c.task, c.upgrade, c.site, got)
			}
		}
		a.end()
	}
}
