package cli_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestLogFile: a master without a supervisor that keeps its log writes it to a file that others can't read, and serves
// the newest lines and its flags at its HTTP port.
func TestLogFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := filepath.Join(dir, "master.log")
	http := freePort(t)
	m := start(t, nil, "master", "--insecure", "--data-dir", filepath.Join(dir, "m1"), "--grpc-port", strconv.Itoa(freePort(t)), "--http-port", strconv.Itoa(http),
		"--raft-port", strconv.Itoa(freePort(t)), "--log-file", log, "--log-file-size", "1", "--log-files", "2")
	until(t, "the master leads", func() bool {
		written, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(written), `"message":"leading"`)
	})
	if info, err := os.Stat(log); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	lines := served(t, "http://127.0.0.1:"+strconv.Itoa(http)+"/v1/log?lines=1000")
	if !strings.Contains(lines, `"message":"leading"`) {
		t.Errorf("the newest lines are %q", lines)
	}
	if flags := served(t, "http://127.0.0.1:"+strconv.Itoa(http)+"/v1/flags"); !strings.Contains(flags, `"log-files":"2"`) {
		t.Errorf("the flags are %s", flags)
	}
	m.signal(syscall.SIGTERM)
	if code := m.wait(); code != 0 || strings.Contains(m.stderr.String(), `"level"`) {
		t.Errorf("exit code %d; standard error has %s", code, &m.stderr)
	}
	if written := readText(t, log); !strings.Contains(written, "ended") {
		t.Errorf("the last lines are missing: %s", written)
	}
	if _, stderr, code := tender(t, nil, "master", "--insecure", "--data-dir", filepath.Join(dir, "m2"), "--log-file", filepath.Join(dir, "none", "x")); code != 2 || !strings.Contains(stderr, "--log-file") {
		t.Errorf("a folder that is not there: exit code %d: %s", code, stderr)
	}
}
