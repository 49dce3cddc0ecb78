package agent

import "testing"

// Sandboxes of ended tasks are deleted early only if the disk has little room by both measures.
func TestIsLittle(t *testing.T) {
	const gigabyte = 1 << 30
	for _, c := range []struct {
		free, all uint64
		little    bool
	}{
		{10 * gigabyte, 252 * gigabyte, false}, // 4 % of a large disk
		{1 * gigabyte, 252 * gigabyte, true},
		{1 * gigabyte, 10 * gigabyte, false}, // a small disk with a tenth free
		{gigabyte / 4, 10 * gigabyte, true},
		{0, 10 * gigabyte, true},
		{0, 0, false}, // the numbers are not known
	} {
		if got := isLittle(c.free, c.all); got != c.little {
			t.Errorf("%d of %d bytes are free: little is %v", c.free, c.all, got)
		}
	}
}
