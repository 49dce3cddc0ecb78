package cli_test

import (
	"slices"
	"strings"
	"testing"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

func destroys(request string) bool { return strings.HasPrefix(request, "DESTROY_VOLUME") }

// Nobody is asked about something that does not exist.
func TestAVolumeThatIsNotThere(t *testing.T) {
	c := small()
	stdout, stderr, code := serving(t, c).run(t, "volume", "destroy", "agent-2", "data", "--role", "ops")
	if code != 1 || stdout != "" || !strings.Contains(stderr, `there is no volume "data"`) || strings.Contains(stderr, "--force") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if stdout, stderr, code = serving(t, c).run(t, "volume", "list"); code != 0 || stderr != "no volumes\n" || !strings.HasPrefix(stdout, "VOLUME") {
		t.Errorf("an empty list has exit code %d: %s%s", code, stdout, stderr)
	}
}

func TestDestroyingAVolumeIsAsked(t *testing.T) {
	for _, test := range []struct {
		name, typed string
		asks        bool
		force       bool
		code        int
		asked       bool // the leader was asked
	}{
		{name: "without a terminal", code: 2},
		{name: "without a terminal, by force", force: true, code: 0, asked: true},
		{name: "yes", asks: true, typed: "y\n", code: 0, asked: true},
		{name: "no", asks: true, typed: "n\n", code: 1},
		{name: "nothing", asks: true, typed: "\n", code: 1},
		{name: "the end of the input", asks: true, typed: "", code: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := small()
			c.agents[2].Orphaned = []*apiv1.OrphanedVolume{{Volume: "data", Role: "ops"}}
			s := serving(t, c)
			s.asks, s.stdin = test.asks, test.typed
			args := []string{"volume", "destroy", "agent-2", "data", "--role", "ops"}
			if test.force {
				args = append(args, "--force")
			}
			_, stderr, code := s.run(t, args...)
			if code != test.code || slices.ContainsFunc(c.requests, destroys) != test.asked {
				t.Errorf("exit code %d, asked %v: %s", code, c.requests, stderr)
			}
			if !test.force && !strings.Contains(stderr, "destroy volume data of agent agent-2 with all its data") {
				t.Errorf("%q does not say what would be destroyed", stderr)
			}
		})
	}
}
