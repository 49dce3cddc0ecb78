package cli_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSnapshotsOffline checks the content of the golden snapshot of the registry's format, and the folder that is made
// from it.
func TestSnapshotsOffline(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../master/internal/registrycodec/testdata/snapshot-1.hex")
	if err != nil {
		t.Fatal(err)
	}
	data, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "saved")
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(data)
	s := &shell{}
	for name, args := range map[string][]string{
		"raft-inspect.txt":  {"raft", "snapshot", "inspect", file},
		"raft-inspect.json": {"raft", "snapshot", "inspect", file, "-o", "json"},
	} {
		out, errs, code := s.run(t, args...)
		if code != 0 {
			t.Fatalf("%s: %d %s", name, code, errs)
		}
		golden(t, name, out)
	}
	home := filepath.Join(dir, "m9")
	restore := []string{"raft", "snapshot", "restore", file, "--data-dir", home, "--id", "m9", "--raft-address", "10.0.0.9:5070"}
	if out, errs, code := s.run(t, restore...); code != 0 || !strings.Contains(out, "tender master --data-dir "+home) {
		t.Fatalf("restore: %d %s%s", code, out, errs)
	}
	refused := func(says string, args ...string) {
		t.Helper()
		if out, errs, code := s.run(t, args...); code == 0 || !strings.Contains(errs, says) || out != "" {
			t.Errorf("%v: %d %q %q", args, code, out, errs)
		}
	}
	refused("empty or does not exist", restore...)
	refused("--data-dir FOLDER", "raft", "snapshot", "restore", file)
	// No new key is made, because no agent would trust the cluster with another one.
	refused("(cluster.key), which no snapshot holds either: if the cluster has one, copy the file", "master", "--data-dir", home, "--id", "m9")
	refused("no master's data folder", "raft", "recover", "--data-dir", filepath.Join(dir, "nowhere"))
	refused("nothing was changed", "raft", "recover", "--data-dir", home, "--confirm", "cluster-of-others")

	out, errs, code := s.run(t, "raft", "recover", "--data-dir", home)
	if code != 0 || !strings.Contains(out, "m9 at 10.0.0.9:5070") || !strings.Contains(out, "Nothing was changed") {
		t.Fatalf("recover, first look: %d %s%s", code, out, errs)
	}
	_, command, _ := strings.Cut(out, "  tender ")
	out, errs, code = s.run(t, strings.Fields(command)...) // the command that its message names
	if code != 0 || !strings.Contains(out, "master m9 is a quorum of one now") {
		t.Errorf("recover: %d %s%s", code, out, errs)
	}

	data[len(data)/2] ^= 1
	write(data)
	refused(file+": the snapshot is damaged", "raft", "snapshot", "inspect", file)
	refused("the snapshot is damaged", "raft", "snapshot", "restore", file, "--data-dir", filepath.Join(dir, "m8"))
	if _, err := os.Stat(filepath.Join(dir, "m8")); !os.IsNotExist(err) {
		t.Errorf("a damaged snapshot left a folder: %v", err)
	}
}
