package datafolder_test

import (
	"testing"

	"github.com/tenderhq/tender/internal/datafolder"
)

// Sandboxes of ended tasks are deleted early only if the disk has little room by both measures.
func TestLittle(t *testing.T) {
	const gigabyte = 1 << 30
	for _, c := range []struct {
		room   datafolder.Room
		little bool
	}{
		{datafolder.Room{Free: 10 * gigabyte, All: 252 * gigabyte}, false}, // 4 % of a large disk
		{datafolder.Room{Free: 1 * gigabyte, All: 252 * gigabyte}, true},
		{datafolder.Room{Free: 1 * gigabyte, All: 10 * gigabyte}, false}, // a small disk with a tenth free
		{datafolder.Room{Free: gigabyte / 4, All: 10 * gigabyte}, true},
		{datafolder.Room{All: 10 * gigabyte}, true},
		{datafolder.Room{}, false}, // the numbers are not known
		{datafolder.Room{Free: 5 * gigabyte, All: 10 * gigabyte, InodesFree: 30_000, Inodes: 1_000_000}, false},
		{datafolder.Room{Free: 5 * gigabyte, All: 10 * gigabyte, InodesFree: 10_000, Inodes: 1_000_000}, true},
		{datafolder.Room{Free: 5 * gigabyte, All: 10 * gigabyte, InodesFree: 500, Inodes: 2_000}, false},
		{datafolder.Room{Free: 5 * gigabyte, All: 10 * gigabyte, Inodes: 2_000}, true},
	} {
		if got := c.room.LittleBytes() || c.room.LittleInodes(); got != c.little {
			t.Errorf("%+v: little is %v", c.room, got)
		}
	}
}
