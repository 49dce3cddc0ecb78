package master_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	_ "github.com/tenderhq/tender/allocator/remote"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/datafolder"
	"github.com/tenderhq/tender/internal/testing/freeports"
	"github.com/tenderhq/tender/master"
)

// open is the Trust of masters that identify nobody.
var open = master.Trust{Insecure: true}

// TestFolder: on real files and sockets, a master comes back with what it had, needs
// no flags for that, and refuses what is not its own.
func TestFolder(t *testing.T) {
	dir, kept := t.TempDir(), func() string { return fmt.Sprint("127.0.0.1:", freeports.ReserveOne(t)) }
	config := master.Config{ID: "m1", DataDir: dir, GRPC: kept(), HTTP: kept(), Raft: kept(), Profile: "fast", Trust: open}
	first, cluster := lead(t, config, func(m *master.Master) {
		if _, err := master.New(config); !api.Is(err, api.Exists) || !strings.Contains(err.Error(), "in use by another master") {
			t.Errorf("a second master in the folder: %v", err)
		}
		taken := config
		taken.DataDir, taken.GRPC = t.TempDir(), m.GRPCAddr()
		if _, err := master.New(taken); !api.Is(err, api.Exists) || !strings.Contains(err.Error(), "gRPC port is in use") {
			t.Errorf("a second master on the port: %v", err)
		}
	})
	again, same := lead(t, master.Config{DataDir: dir}, func(*master.Master) {})
	if same != cluster || again.Compare(first) <= 0 {
		t.Errorf("cluster %s in term %v, then %s in term %v", cluster, first, same, again)
	}
	other := config
	other.ID = "m2"
	if _, err := master.New(other); !api.Is(err, api.Exists) {
		t.Errorf("the folder of another master: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "raft", "raft.db")); err != nil {
		t.Fatal(err)
	}
	if _, err := master.New(config); err == nil || !strings.Contains(err.Error(), "Raft's files are missing") {
		t.Errorf("a folder without Raft's files: %v", err)
	}
}

// TestAForeignFolderIsLeftAlone: a start in somebody else's folder, such as /etc, is refused before any rights are
// changed or anything is written there. What a master has made itself is no reason to refuse, even if the files that
// show this are lost.
func TestAForeignFolderIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "passwd"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	config := master.Config{ID: "m1", DataDir: dir, GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Raft: "127.0.0.1:0", Profile: "fast", Trust: open}
	if _, err := master.New(config); !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), "the folder holds passwd") {
		t.Errorf("it says %v", err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o755, filepath.Join(dir, "passwd"): 0o644} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has the mode %v, %v", path, info.Mode(), err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("it holds %v, %v", left, err)
	}

	config.DataDir = t.TempDir()
	lead(t, config, func(*master.Master) {})
	made, err := os.ReadDir(config.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	lost := t.TempDir()
	for _, entry := range made {
		if !slices.Contains(datafolder.Master.Signs, entry.Name()) {
			if err := os.WriteFile(filepath.Join(lost, entry.Name()), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := datafolder.Check(lost, datafolder.Master); err != nil {
		t.Error(err)
	}
}

// TestAFolderIsItsMastersAlone: what others may see of it, as of one that was copied from a backup, is taken from them at the
// start, and said.
func TestAFolderIsItsMastersAlone(t *testing.T) {
	dir := t.TempDir()
	raft := filepath.Join(dir, "raft")
	config := master.Config{ID: "m1", DataDir: dir, GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Raft: "127.0.0.1:0", Profile: "fast", Trust: open}
	lead(t, config, func(*master.Master) {})
	settings := filepath.Join(dir, "raft.json")
	for path, mode := range map[string]os.FileMode{dir: 0o755, raft: 0o777, settings: 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	log := zerolog.New(&said)
	config.Logger = &log
	m, err := master.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, raft: 0o700, settings: 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		if !strings.Contains(said.String(), `"path":"`+path+`"`) {
			t.Errorf("the log does not name %s:\n%s", path, &said)
		}
	}
}

// TestAdvertisedNowhere: a host that nobody can reach is refused at the start. Ports are those of the listeners.
func TestAdvertisedNowhere(t *testing.T) {
	for advertise, want := range map[string]string{
		"http://m1": `"http://m1" is neither the name of a host nor an address`, "m1:5060": `"m1:5060" is neither`, "0.0.0.0": "nobody reaches a machine at 0.0.0.0",
	} {
		config := master.Config{
			ID: "m1", DataDir: t.TempDir(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Raft: "127.0.0.1:0", Profile: "fast", Trust: open, Advertise: advertise,
		}
		if _, err := master.New(config); !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", advertise, err)
		}
	}
}

// TestJournalThatCantBeWritten: who asks for a journal is told at the start that there can be none.
func TestJournalThatCantBeWritten(t *testing.T) {
	config := master.Config{
		ID: "m1", DataDir: t.TempDir(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Raft: "127.0.0.1:0", Profile: "fast", Trust: open,
		AllocatorJournal: filepath.Join(t.TempDir(), "nosuch", "journal"),
	}
	if _, err := master.New(config); !api.Is(err, api.Unavailable) || !strings.Contains(err.Error(), "the allocator's journal can't be opened; name another file") {
		t.Error(err)
	}
}

// TestEveryAddress: a master that is bound to all addresses must say by which of them others reach it. One that has run
// without that may continue, and its log says what is wrong.
func TestEveryAddress(t *testing.T) {
	config := master.Config{ID: "m1", DataDir: t.TempDir(), GRPC: "0.0.0.0:0", HTTP: "[::]:0", Raft: ":0", Profile: "fast", Trust: open}
	if _, err := master.New(config); !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), "--advertise HOST") {
		t.Errorf("a first start: %v", err)
	}
	said := config
	said.DataDir, said.Advertise = t.TempDir(), "127.0.0.1"
	lead(t, said, func(m *master.Master) {
		if !strings.HasPrefix(m.GRPCAddr(), "127.0.0.1:") {
			t.Errorf("others are told %s", m.GRPCAddr())
		}
	})
	here := master.Config{ID: "m1", DataDir: t.TempDir(), GRPC: "127.0.0.1:0", HTTP: "none", Raft: "127.0.0.1:0", Profile: "fast", Trust: open}
	lead(t, here, func(*master.Master) {})
	var log bytes.Buffer
	logger := zerolog.New(&log)
	m, err := master.New(master.Config{DataDir: here.DataDir, GRPC: "[::]:0", Raft: "[::]:0", Logger: &logger})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "--advertise HOST") {
		t.Errorf("it says %s", &log)
	}
}

// lead runs a master until it leads and do has returned.
func lead(t *testing.T, config master.Config, do func(*master.Master)) (api.Term, api.ClusterID) {
	t.Helper()
	m, err := master.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	term := master.UntilLeads(t, m)
	do(m)
	cluster := m.Cluster()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the master ended with %v", err)
	}
	if _, err := net.Dial("tcp", m.GRPCAddr()); err == nil {
		t.Error("a listener is left behind")
	}
	return term, cluster
}

func TestConfigReportsEverything(t *testing.T) {
	_, err := master.New(master.Config{ID: "a/b", GRPC: "0.0.0.0:5060", HTTP: "nowhere", Allocator: "fairest", Profile: "slow"})
	var wrong *api.Error
	if !errors.As(err, &wrong) || wrong.Kind != api.Invalid {
		t.Fatalf("%v", err)
	}
	for _, says := range []string{"a/b", "data folder", "no HOST:PORT", "fairest", "lan, fast and wan"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q is missing in: %v", says, err)
		}
	}
}

// TestNobodyIsServedUnasked: a master without a key does not start, unless it was told that this is right.
func TestNobodyIsServedUnasked(t *testing.T) {
	_, err := master.New(master.Config{ID: "m1", DataDir: t.TempDir(), GRPC: "127.0.0.1:0", HTTP: "none", Raft: "127.0.0.1:0"})
	if api.KindOf(err) != api.Invalid || !strings.Contains(err.Error(), "holds no cluster's key") {
		t.Errorf("%v", err)
	}
}

// TestNoJournalOfAnotherProcess: a journal of a policy in another process is refused with a sentence, not silently left
// out.
func TestNoJournalOfAnotherProcess(t *testing.T) {
	_, err := master.New(master.Config{DataDir: t.TempDir(), Trust: open, Allocator: "remote:127.0.0.1:1", AllocatorJournal: "journal"})
	if api.KindOf(err) != api.Invalid || !strings.Contains(err.Error(), "no journal can be kept of allocator remote:127.0.0.1:1") {
		t.Errorf("%v", err)
	}
}
