package datafolder_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/tenderhq/tender/internal/datafolder"
)

func TestOf(t *testing.T) {
	folder := t.TempDir()
	room, err := datafolder.RoomOf(folder)
	if err != nil || room.Free == 0 || room.Free > room.All || room.InodesFree > room.Inodes || room.LacksInodes(1) {
		t.Errorf("%+v, %v", room, err)
	}
	if room, err := datafolder.RoomOf(filepath.Join(folder, "missing")); !errors.Is(err, fs.ErrNotExist) || room != (datafolder.Room{}) {
		t.Errorf("of what is not there: %+v, %v", room, err)
	}
}
