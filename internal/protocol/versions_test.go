package protocol

import (
	"strings"
	"testing"
)

// TestNeighbours: R24.
func TestNeighbours(t *testing.T) {
	for _, c := range []struct {
		ours, theirs string
		together     bool
	}{
		{"v0.3.1", "v0.3.9", true},
		{"v0.3.1", "v0.4.0", true},
		{"v0.4.0 (5d2c1e07a9b4)", "v0.3.1-7-g5d2c1e0-dirty", true},
		{"v0.3.1", "v0.5.0", false},
		{"v0.5.0-rc.1", "v0.3.1", false},
		{"v1.0.0", "v0.9.0", false},
		{"devel", "v0.9.0", true},
		{"v0.9.0", "", true},
		{"5d2c1e0", "unknown", true},
		{"v1", "v3.x.0", true},
	} {
		err := Neighbours(c.ours, c.theirs)
		if (err == nil) != c.together {
			t.Errorf("%s and %s: %v", c.ours, c.theirs, err)
		}
		if err != nil && !(strings.Contains(err.Error(), c.ours) && strings.Contains(err.Error(), c.theirs)) {
			t.Errorf("%s and %s: the sentence does not name both: %v", c.ours, c.theirs, err)
		}
	}
}
