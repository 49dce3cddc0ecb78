package raftlog

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/testing/platter"
)

// powerFolder names the folder of the master that TestPowerLoss starts as a process of its own.
const powerFolder = "TENDER_TEST_POWER_FOLDER"

// powerChanges are what the master is asked for; behind the half of them it saves a snapshot and trims its log.
const powerChanges = 6

// TestPowerLoss: the machine of a lone master loses power right before any sync of a file or folder, whoever makes it:
// this package, bbolt or Raft. What was not synced by then is lost, and names with or without it. The master opens its
// folder and leads, and has each change that was acknowledged (promise 5), in the same cluster.
func TestPowerLoss(t *testing.T) {
	if folder := os.Getenv(powerFolder); folder != "" {
		losesPower(t, folder)
		return
	}
	before := t.TempDir()
	moments := watchPower(t, before)
	if len(moments) < 2*powerChanges {
		t.Fatalf("%d syncs were seen", len(moments))
	}
	for i, at := range moments {
		for name, folder := range at.left {
			survives(t, fmt.Sprintf("before sync %d, %s", i+1, name), folder, at.acknowledged)
		}
	}
}

// moment is what is left when the power is lost there, and which changes were acknowledged by then.
type moment struct {
	acknowledged string
	left         map[string]string // folders, by what is said of their names
}

// watchPower runs the master as a process and returns each moment before a sync, and the end.
func watchPower(t *testing.T, folder string) (moments []moment) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	command := exec.Command(os.Args[0], "-test.run", "^TestPowerLoss$")
	command.Env = append(os.Environ(), powerFolder+"="+folder)
	command.ExtraFiles = []*os.File{theirs}
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = said, said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	disk := platter.New()
	master := filepath.Join(folder, "m1")
	note := func() error {
		acknowledged, err := os.ReadFile(filepath.Join(folder, "acknowledged"))
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		at := moment{string(acknowledged), map[string]string{"names are lost too": t.TempDir(), "names stay": t.TempDir()}}
		moments = append(moments, at)
		for name, to := range at.left {
			if err := disk.Survive(master, to, name == "names stay"); err != nil {
				return err
			}
		}
		return nil
	}
	failed := disk.Follow(ours, master, note)
	if failed != nil {
		_ = command.Process.Kill() // it may have ended
	}
	ended := command.Wait()
	text, _ := os.ReadFile(said.Name()) // only to explain a failure
	if strings.Contains(string(text), "can't be reported") {
		t.Skipf("this kernel reports no system calls: %s", text)
	}
	if failed != nil || ended != nil {
		t.Fatalf("%v, %v: %s", failed, ended, text)
	}
	if err := note(); err != nil {
		t.Fatal(err)
	}
	return moments
}

// losesPower is the master's process.
func losesPower(t *testing.T, folder string) {
	if err := platter.Report(os.NewFile(3, "parent")); err != nil {
		t.Fatal(err)
	}
	acknowledged, err := os.Create(filepath.Join(folder, "acknowledged"))
	if err != nil {
		t.Fatal(err)
	}
	q := diskQuorum(t, 1, folder)
	_, lead := q.leader("")
	for i := range uint64(powerChanges) {
		if _, err := commit(lead, admit("c", i+1)); err != nil {
			t.Fatal(err)
		}
		if err := WriteFileSynced(filepath.Join(folder, "m1", "kept"), []byte(strconv.FormatUint(i+1, 10))); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(acknowledged, "c-%d\n", i+1); err != nil {
			t.Fatal(err)
		}
		if i == powerChanges/2 {
			if err := q.nodes["m1"].engine.running().Snapshot().Error(); err != nil {
				t.Fatal(err)
			}
			if q.nodes["m1"].Snapshots.Newest().At.IsZero() {
				t.Fatal("nobody knows when the snapshot was made")
			}
		}
	}
	q.stopAll()
}

// survives starts a master on what is left of its folder.
func survives(t *testing.T, when, folder, acknowledged string) {
	t.Helper()
	q := &cluster{t: t, mesh: newMesh(), nodes: map[api.MasterID]*node{}}
	changes := strings.Fields(acknowledged)
	if kept, err := os.ReadFile(filepath.Join(folder, "kept")); len(changes) > 0 && (err != nil || string(kept) < strconv.Itoa(len(changes))) {
		t.Errorf("%s: a file that was written with change %d has %q, %v", when, len(changes), kept, err)
	}
	q.peers = []Peer{{ID: "m1", Addr: "host1:5070"}}
	q.onDisk(q.peers[0], folder)
	select {
	case err := <-q.nodes["m1"].ended:
		t.Errorf("%s: the master ends: %v", when, err)
		return
	case lead := <-q.nodes["m1"].Leaderships():
		known := map[api.Nonce]bool{}
		for _, agent := range lead.State.Agents { // order: irrelevant because a set is filled
			known[agent.Nonce] = true
		}
		for _, nonce := range changes {
			if !known[api.Nonce(nonce)] {
				t.Errorf("%s: %s was acknowledged, and is lost", when, nonce)
			}
		}
	}
	q.stopAll()
}
