package cli_test

import (
	"strings"
	"testing"
)

func TestDestroyingAVolumeIsAsked(t *testing.T) {
	for _, test := range []struct {
		name, typed string
		asks        bool
		force       bool
		code        int
		asked       bool // the leader
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
			s := serving(t, c)
			s.asks, s.stdin = test.asks, test.typed
			args := []string{"volume", "destroy", "agent-2", "data", "--role", "ops"}
			if test.force {
				args = append(args, "--force")
			}
			_, stderr, code := s.run(t, args...)
			if code != test.code || len(c.requests) > 0 != test.asked {
				t.Errorf("exit code %d, asked %v: %s", code, c.requests, stderr)
			}
			if !test.force && !strings.Contains(stderr, "destroy volume data of agent agent-2 with all its data") {
				t.Errorf("%q does not say what would be destroyed", stderr)
			}
		})
	}
}
