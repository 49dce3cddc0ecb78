package cli_test

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// One of three masters is recovered from its folder, and then the two that were given up are started anyway. They end
// with a sentence, and the recovered one goes on to lead its agents.
func TestOldMastersAreRefusedAfterARecovery(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	port := func() string { return strconv.Itoa(freePort(t)) }
	names := []string{"m1", "m2", "m3"}
	folder, grpc, raft := map[string]string{}, map[string]string{}, map[string]string{}
	var peers, addresses []string
	for _, name := range names {
		folder[name], grpc[name], raft[name] = filepath.Join(dir, name), port(), port()
		peers, addresses = append(peers, name+"=127.0.0.1:"+raft[name]), append(addresses, "127.0.0.1:"+grpc[name])
	}
	env := []string{"TENDER_MASTER=" + strings.Join(addresses, ",")}
	var masters []*proc
	for _, name := range names {
		masters = append(masters, start(t, nil, "master", "--insecure", "--data-dir", folder[name], "--id", name, "--grpc-port", grpc[name],
			"--http-port", "0", "--raft-port", raft[name], "--peers", strings.Join(peers, ",")))
	}
	agent := start(t, env, "agent", "--insecure", "--data-dir", filepath.Join(dir, "agent"), "--http-port", port(), "--resources", "cpus:1;mem:256")
	agent.await(`"registered"`)
	for _, master := range masters {
		master.signal(syscall.SIGKILL)
		master.wait()
	}

	found, _, _ := tender(t, nil, "raft", "recover", "--data-dir", folder["m1"])
	if _, stderr, code := tender(t, nil, "raft", "recover", "--data-dir", folder["m1"],
		"--confirm", regexp.MustCompile(`cluster-[0-9a-f]+`).FindString(found)); code != 0 {
		t.Fatal(stderr)
	}
	recovered := start(t, nil, "master", "--insecure", "--data-dir", folder["m1"])
	recovered.await(`"leading"`)
	agent.await(`"registered"`)

	var old []*proc
	for _, name := range names[1:] {
		old = append(old, launch(t, nil, true, []string{"master", "--data-dir", folder[name]}))
	}
	for i, master := range old {
		if code := master.wait(); code != 1 || !strings.Contains(master.stderr.String(), "was removed from the quorum") {
			t.Errorf("%s, which was given up: exit code %d, %s", names[i+1], code, &master.stderr)
		}
	}
	if said := old[0].stderr.String() + old[1].stderr.String(); strings.Contains(said, `"leading"`) ||
		!strings.Contains(said, "the cluster was recovered or restored without this master: m1 is of its epoch 1") {
		t.Errorf("the old masters said\n%s", said)
	}
	recovered.await("a master of an older epoch is refused: the cluster was recovered or restored without it")
	if recovered.hasSaid("leadership is over") {
		t.Error("the recovered master led no longer")
	}
	list := get(t, env, "masters").Items
	if len(list) != 1 || list[0].ID != "m1" || list[0].State != "leader" {
		t.Errorf("the masters are %+v", list)
	}
	if agents := get(t, env, "agents").Items; len(agents) != 1 || agents[0].State != "RUNNING" {
		t.Errorf("the agents are %+v", agents)
	}
}
