package walls

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tenderhq/tender/internal/datafolder"
)

// TestAFullDiskTakesNoWalls: an agent that is started again on a full disk can't try out what tasks can have. It starts
// nevertheless, with the namespaces that it was asked for, and with images. The first disk has no room for a folder, the
// second one none for a file's content.
func TestAFullDiskTakesNoWalls(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	for _, one := range []struct {
		limit  string
		killed bool // the agent before; else it has ended, and its control group with it
	}{{"nr_inodes=8", true}, {"size=64k", true}, {"nr_inodes=8", false}, {"size=64k", false}} {
		t.Run(fmt.Sprint(one), func(t *testing.T) {
			folder := t.TempDir()
			if said, err := exec.Command("mount", "-t", "tmpfs", "-o", one.limit, "tmpfs", folder).CombinedOutput(); err != nil {
				t.Skipf("this machine mounts no tmpfs: %v: %s", err, said)
			}
			t.Cleanup(func() {
				if said, err := exec.Command("umount", "-l", folder).CombinedOutput(); err != nil {
					t.Errorf("umount: %v: %s", err, said)
				}
			})
			if before := openedIn(t, folder, Config{Isolation: Spaces}); !one.killed {
				if err := before.Close(); err != nil {
					t.Fatal(err)
				}
			}
			fill(t, folder)
			c := openedIn(t, folder, Config{Isolation: Spaces})
			if why := c.NoImages(); why != "" || c.CopyImages() {
				t.Errorf("no images: %q; copied: %v", why, c.CopyImages())
			}
		})
	}
}

// fill fills a disk: with content, and then with empty files.
func fill(t *testing.T, folder string) {
	t.Helper()
	err := os.WriteFile(filepath.Join(folder, "zeros"), make([]byte, 128<<10), 0o600)
	for i := 0; err == nil && i < 16; i++ {
		err = os.WriteFile(filepath.Join(folder, fmt.Sprint(i)), nil, 0o600)
	}
	if !datafolder.IsDiskFull(err) {
		t.Fatalf("the disk does not run full: %v", err)
	}
}
