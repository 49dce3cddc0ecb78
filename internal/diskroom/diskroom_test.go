package diskroom_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/tenderhq/tender/internal/diskroom"
)

func TestOf(t *testing.T) {
	folder := t.TempDir()
	room, err := diskroom.Of(folder)
	if err != nil || room.Free == 0 || room.Free > room.All || room.InodesFree > room.Inodes || room.LacksInodes(1) {
		t.Errorf("%+v, %v", room, err)
	}
	if room, err := diskroom.Of(filepath.Join(folder, "missing")); !errors.Is(err, fs.ErrNotExist) || room != (diskroom.Room{}) {
		t.Errorf("of what is not there: %+v, %v", room, err)
	}
}
