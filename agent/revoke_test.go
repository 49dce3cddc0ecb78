package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// hold is a command line that uses that much memory, in MB, until it is killed. (tail -c would take up to twice as much,
// as its buffers are filled by what each read brings.)
func hold(mb int) string {
	return fmt.Sprintf("(head -c %[1]d /dev/zero; exec sleep 1000) | exec dd bs=%[1]d iflag=fullblock of=/dev/null 2>/dev/null", mb<<20)
}

// TestRevoke (R28) uses real processes, measured in the kernel's table. When a firm task begins to use the memory that
// it had left unused, the youngest of the revocable tasks is ended, and the firm one goes on.
func TestRevoke(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	config.Resources = api.Scalars(4, 400)
	run(t, config)
	await(master, "heartbeat", func(protocol.AgentHeartbeat) bool { return true })
	grow := filepath.Join(t.TempDir(), "grow")

	firm := command("firm", fmt.Sprintf("while [ ! -e %s ]; do sleep 0.05; done; %s", grow, hold(240)))
	firm.Resources = api.Scalars(1, 300)
	master.launch(firm)
	master.status("firm", api.TaskRunning)
	for _, id := range []api.TaskID{"older", "younger"} {
		guest := command(id, hold(80))
		guest.Resources = api.Scalars(1, 120).AsRevocable()
		master.launch(guest)
		master.status(id, api.TaskRunning)
	}
	if err := os.WriteFile(grow, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if status := master.status("younger", api.TaskKilling); status.Reason != api.ReasonRevoked {
		t.Errorf("the younger guest is killed for %s", status.Reason)
	}
	if status := master.status("younger", api.TaskKilled); status.Reason != api.ReasonRevoked {
		t.Errorf("the younger guest was killed for %s", status.Reason)
	}
	first := true
	for _, call := range master.all() {
		update, is := call.(protocol.StatusUpdate)
		switch {
		case !is || !update.Status.State.Terminal() && update.Status.State != api.TaskKilling:
		case update.Status.Task == "firm":
			t.Errorf("the firm task is told to be %s", update.Status.State)
		case first && update.Status.Task != "younger":
			t.Errorf("%s ended before the younger one", update.Status.Task)
		default:
			first = false
		}
	}
}
