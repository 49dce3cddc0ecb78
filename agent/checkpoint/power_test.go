package checkpoint

import (
	"fmt"
	"os"
	"testing"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/platter"
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
	disk := platter.New()
	d.system.sync = func(file *os.File) error { return disk.Sync(file.Name()) }
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
	if err := disk.Survive(before, after, keepsNames); err != nil {
		t.Fatal(err)
	}
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
