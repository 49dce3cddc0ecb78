package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// TestPowerLoss: the machine loses power behind any append. What was written and not synced may be lost: the content of
// a file, its name in the folder, or both. The agent's identity and its volumes are still there, so that it comes back
// as the same agent and no volume's data are put aside (R7, R22).
func TestPowerLoss(t *testing.T) {
	for _, keepsNames := range []bool{false, true} {
		for last := range len(powerSteps) {
			t.Run(fmt.Sprintf("behind step %d, names stay: %t", last, keepsNames), func(t *testing.T) {
				losePower(t, last, keepsNames)
			})
		}
	}
}

// powerSteps are what an agent writes in its first minutes.
var powerSteps = [][]core.Record{
	{core.Identity{Nonce: "n1", BootID: "boot-1"}},
	{core.Identity{Nonce: "n1", BootID: "boot-1", Cluster: "c", Agent: "agent-1", Term: api.Term{Number: 1}}},
	{core.VolumeKept{Volume: powerVolume("v1")}},
	{core.FrameworkKept{Framework: api.Framework{ID: "framework-1"}}, core.VolumeKept{Volume: powerVolume("v2")}},
	{core.VolumeForgotten{Volume: "v1"}},
	{core.Identity{Nonce: "n1", BootID: "boot-1", Cluster: "c", Agent: "agent-1", Term: api.Term{Number: 2}, Gone: true}},
}

func powerVolume(id api.VolumeID) protocol.Volume {
	return protocol.Volume{Resource: api.Resource{Label: api.Label{Name: "disk", Reserved: "web", Dynamic: true, Volume: id}, Scalar: 1000}, Generation: 1}
}

func losePower(t *testing.T, last int, keepsNames bool) {
	t.Helper()
	before := t.TempDir()
	d := NewDisk(Config{Folder: before, BootID: "boot-1"})
	platter := &platter{contents: map[uint64][]byte{}, names: map[string]uint64{}}
	d.system.sync = platter.sync
	if _, err := d.Load(); err != nil {
		t.Fatal(err)
	}
	wants := identity{volumes: map[api.VolumeID]protocol.Volume{}}
	for _, records := range powerSteps[:last+1] {
		if _, err := d.Append(records); err != nil {
			t.Fatal(err)
		}
		for _, record := range records {
			wants.take(record)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	after := t.TempDir()
	platter.survive(t, before, after, keepsNames)
	found, err := NewDisk(Config{Folder: after, BootID: "boot-2"}).Load()
	if err != nil {
		t.Fatalf("the agent does not come back: %v", err)
	}
	has := identity{volumes: map[api.VolumeID]protocol.Volume{}}
	for _, record := range found {
		has.take(record)
	}
	if fmt.Sprint(has.records()) != fmt.Sprint(wants.records()) {
		t.Errorf("it comes back as %v, and was %v", has.records(), wants.records())
	}
}

// platter is what a disk really holds when the power is lost: of each file what was synced, under the names that the
// folder had when it was synced.
type platter struct {
	contents map[uint64][]byte
	names    map[string]uint64
}

func (p *platter) sync(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.IsDir() {
		p.contents[inode(file)], err = os.ReadFile(file.Name())
		return err
	}
	clear(p.names)
	return eachFile(file.Name(), func(name string, of uint64) { p.names[name] = of })
}

// survive fills the folder with what is left. keepsNames says that all names of the folder are left, as the file system
// may write them at any time.
func (p *platter) survive(t *testing.T, before, after string, keepsNames bool) {
	t.Helper()
	names := p.names
	if keepsNames {
		names = map[string]uint64{}
		if err := eachFile(before, func(name string, of uint64) { names[name] = of }); err != nil {
			t.Fatal(err)
		}
	}
	for name, of := range names {
		if err := os.WriteFile(filepath.Join(after, name), p.contents[of], 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func eachFile(folder string, do func(name string, of uint64)) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		file, err := os.Open(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		do(entry.Name(), inode(file))
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}
