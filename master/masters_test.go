package master

import "testing"

func TestLagging(t *testing.T) {
	for _, c := range []struct {
		applied, reached uint64
		want             string
	}{
		{100, 100, ""},
		{101, 100, ""}, // it has gone on meanwhile
		{100, 100 + lagMax, ""},
		{100, 101 + lagMax, "it lags: it has applied entry 100, and the leader was at 10101"},
	} {
		if got := lagging(c.applied, c.reached); got != c.want {
			t.Errorf("%d of %d: %q, not %q", c.applied, c.reached, got, c.want)
		}
	}
}
