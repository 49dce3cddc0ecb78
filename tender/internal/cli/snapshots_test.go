package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestScheduledSnapshots: a master saves its registry again and again, keeps as many as it is told, says by a metric
// when it was, and from the newest another cluster is made that has the same.
func TestScheduledSnapshots(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	saves, http, grpc := filepath.Join(dir, "saved"), strconv.Itoa(freePort(t)), strconv.Itoa(freePort(t))
	if err := os.Mkdir(saves, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(saves, "registry-of-mine.snapshot"), nil, 0o600); err != nil { // somebody's own file stays
		t.Fatal(err)
	}
	for _, ahead := range []string{"registry-20990101T000000.000Z-7.snapshot", "registry-20990101T010000.000Z-8.snapshot"} { // saved by a clock that was wrong (R23)
		if err := os.WriteFile(filepath.Join(saves, ahead), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := start(t, nil, "master", "--insecure", "--data-dir", filepath.Join(dir, "m1"), "--grpc-port", grpc, "--http-port", http,
		"--raft-port", strconv.Itoa(freePort(t)), "--snapshot-every", "1s", "--snapshot-keep", "2", "--snapshot-dir", saves)
	m.await("snapshot of the registry saved")
	env := []string{"TENDER_MASTER=127.0.0.1:" + grpc}
	if _, stderr, code := tender(t, env, "weight", "eng", "3"); code != 0 {
		t.Fatal(stderr)
	}
	moved := regexp.MustCompile(`(?m)^tender_snapshot_saved_timestamp_seconds (\S+)$`)
	at := func() string {
		if found := moved.FindStringSubmatch(served(t, "http://127.0.0.1:"+http+"/metrics")); found != nil {
			return found[1]
		}
		return ""
	}
	began := at()
	for range 3 { // at least the last one has the role
		before := at()
		until(t, "another snapshot", func() bool { return at() != before })
	}
	if now := at(); began == "" || now == began {
		t.Errorf("the metric said %q, and says %q", began, now)
	}
	if said, stderr, code := tender(t, env, "describe", "master", "m1"); code != 0 || !regexp.MustCompile(`(?m)^Saved: +20\d\d-`).MatchString(said) {
		t.Errorf("exit code %d: %s%s", code, said, stderr)
	}
	m.signal(syscall.SIGTERM)
	if code := m.wait(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	files, err := filepath.Glob(filepath.Join(saves, "*"))
	if err != nil || len(files) != 3 || filepath.Base(files[2]) != "registry-of-mine.snapshot" {
		t.Fatalf("%v are in the folder, %v", files, err)
	}
	newest, other := files[1], filepath.Join(dir, "m2")
	if info, err := os.Stat(newest); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if stdout, stderr, code := tender(t, nil, "raft", "snapshot", "restore", newest, "--data-dir", other); code != 0 {
		t.Fatalf("%s%s", stdout, stderr)
	}
	start(t, nil, "master", "--insecure", "--data-dir", other, "--bind", "127.0.0.1", "--grpc-port", grpc, "--http-port", "0", "--raft-port", strconv.Itoa(freePort(t)))
	until(t, "the restored cluster has the role", func() bool {
		stdout, _, _ := tender(t, env, "get", "roles")
		return strings.Contains(stdout, "eng")
	})
	for _, wrong := range [][]string{{"--snapshot-every", "1ms"}, {"--snapshot-keep", "0"}} {
		if _, stderr, code := tender(t, nil, append([]string{"master", "--insecure", "--data-dir", filepath.Join(dir, "m3")}, wrong...)...); code != 2 || !strings.Contains(stderr, wrong[0]) {
			t.Errorf("%v: exit code %d: %s", wrong, code, stderr)
		}
	}
}
