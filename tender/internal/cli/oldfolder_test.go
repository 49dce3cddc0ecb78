package cli_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestAnOldFolderIsRefusedAfterARestore (R51): a cluster is restored from a snapshot, and its masters come back under
// the IDs that they had, with new folders. When a majority of these is down, somebody starts one by its old folder by
// mistake: it gets nobody's vote and ends, so what was answered since stands.
func TestAnOldFolderIsRefusedAfterARestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	port := func() string { return strconv.Itoa(freePort(t)) }
	names := []string{"m1", "m2", "m3"}
	grpc, raft := map[string]string{}, map[string]string{}
	var peers, addresses []string
	for _, name := range names {
		grpc[name], raft[name] = port(), port()
		peers, addresses = append(peers, name+"=127.0.0.1:"+raft[name]), append(addresses, "127.0.0.1:"+grpc[name])
	}
	env := []string{"TENDER_MASTER=" + strings.Join(addresses, ",")}
	run := func(name, folder string) *proc {
		t.Helper()
		return launch(t, nil, true, []string{"master", "--insecure", "--data-dir", filepath.Join(dir, folder), "--id", name, "--grpc-port", grpc[name],
			"--http-port", "0", "--raft-port", raft[name], "--peers", strings.Join(peers, ",")})
	}
	must := func(args ...string) {
		t.Helper()
		if _, stderr, code := tender(t, env, args...); code != 0 {
			t.Fatalf("tender %s: exit code %d, %s", strings.Join(args, " "), code, stderr)
		}
	}
	end := func(masters ...*proc) {
		for _, master := range masters {
			master.signal(syscall.SIGKILL)
			master.wait()
		}
	}

	old := []*proc{run("m1", "old1"), run("m2", "old2"), run("m3", "old3")}
	must("weight", "before", "2")
	saved := filepath.Join(dir, "saved")
	must("raft", "snapshot", "save", saved)
	end(old...)
	must("raft", "snapshot", "restore", saved, "--data-dir", filepath.Join(dir, "new1"), "--id", "m1", "--raft-address", "127.0.0.1:"+raft["m1"])
	masters := map[string]*proc{"m1": run("m1", "new1")}
	for _, name := range names[1:] {
		masters[name] = run(name, "new"+name[1:])
		must("raft", "add", name, "127.0.0.1:"+raft[name])
	}
	until(t, "three masters", func() bool { return len(get(t, env, "masters").Items) == 3 })

	end(masters["m2"])
	must("weight", "precious", "7") // m1 and m3 have it
	end(masters["m1"], masters["m3"])
	second, mistaken := run("m2", "new2"), run("m3", "old3")
	if code := mistaken.wait(); code == 0 || !strings.Contains(mistaken.stderr.String(), "was recovered or restored without this master") {
		t.Errorf("the old folder's master: exit code %d, %s", code, &mistaken.stderr)
	}
	if second.hasSaid(`"leading"`) || strings.Contains(mistaken.stderr.String(), `"leading"`) {
		t.Errorf("one of the two led:\n%s", &mistaken.stderr)
	}
	run("m1", "new1")
	until(t, "what was answered", func() bool {
		roles, _, code := tender(t, env, "get", "roles")
		return code == 0 && strings.Contains(roles, "precious")
	})
}
