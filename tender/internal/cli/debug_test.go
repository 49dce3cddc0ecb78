package cli_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDebug gathers an archive of a cluster in which secrets are everywhere where they can be: on command lines, in the
// environment, in files and in those of jobs, in tasks, in the logs. None of them is in the archive. Everything else is;
// and who may only view gets what he may see, and a list of what is missing.
func TestDebug(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	const hidden = "a-secret-that-nobody-may-see" // stands for the values of people's secrets
	agentToken := c.must("token", "create", "agent")
	credentials := filepath.Join(c.dir, "config.json")
	if err := os.WriteFile(credentials, []byte(`{"auths":{"r.example.org":{"username":"ann","password":"`+hidden+`"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, append([]string{"DB_PASSWORD=" + hidden}, c.env...), "agent", "--data-dir", c.folder("a1"), "--http-port", strconv.Itoa(freePort(t)),
		"--hostname", "a1", "--resources", "cpus:2;mem:500;disk:100", "--join", agentToken, "--master", c.masters[0],
		"--registry-credentials", credentials, "--attributes", "password="+hidden, "--log-level", "debug")
	until(t, "an agent", func() bool { return len(get(t, c.env, "agents", "--state", "RUNNING").Items) == 1 })
	theSecretsAreSpread(t, c, hidden)

	archive := filepath.Join(c.dir, "debug.tar.gz")
	stdout, stderr, code := tender(t, c.env, "debug", "a1", "--file", archive)
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	if info, err := os.Stat(archive); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	files := unpacked(t, archive)
	for _, name := range []string{
		"version.txt", "cluster.json", "masters.json", "peers.json", "agents.json", "frameworks.json", "roles.json", "events.json", "doctor.json", "verify.json",
		"masters/m1/flags.json", "masters/m1/metrics.txt", "masters/m1/log.json", "masters/m1/goroutines.txt", "masters/m1/heap.pprof",
		"agents/agent-1/flags.json", "agents/agent-1/metrics.txt", "agents/agent-1/log.json", "agents/agent-1/goroutines.txt", "agents/agent-1/heap.pprof",
	} {
		if len(files[name]) == 0 {
			t.Errorf("%s is not in the archive, or empty", name)
		}
	}
	secrets := append(theSecretsOf(t, c), hidden, agentToken[strings.LastIndex(agentToken, "_")+1:])
	for name, content := range files {
		for _, secret := range secrets {
			if bytes.Contains(content, []byte(secret)) {
				t.Errorf("%s has the secret %q", name, secret)
			}
		}
	}
	for name, word := range map[string]string{
		"agents/agent-1/flags.json": "registry-credentials", "agents/agent-1/log.json": "registered", "masters/m1/log.json": "launches carry receipts",
		"verify.json": `"well"`, "masters/m1/metrics.txt": "tender_master_leading 1",
	} {
		if !bytes.Contains(files[name], []byte(word)) {
			t.Errorf("%s does not say %q", name, word)
		}
	}

	if _, stderr, code := tender(t, c.env, "debug", "--file", archive); code == 0 || !strings.Contains(stderr, "exists already") {
		t.Errorf("a file that exists: exit code %d: %s", code, stderr)
	}
	c.must("grant", "ann", "view")
	viewer := append([]string{"XDG_CONFIG_HOME=" + filepath.Join(c.dir, "ann")}, c.env[1:]...)
	c.logIn(viewer, c.must("token", "create", "operator", "--principal", "ann"))
	seen := filepath.Join(c.dir, "seen.tar.gz")
	_, stderr, code = tender(t, viewer, "debug", "a1", "--file", seen)
	files = unpacked(t, seen)
	if code != 0 || !strings.Contains(stderr, "missing: masters/m1/log.json") || !bytes.Contains(files["missing.txt"], []byte("agents/agent-1/log.json")) {
		t.Errorf("exit code %d: %s%s", code, stderr, files["missing.txt"])
	}
	for name, there := range map[string]bool{
		"masters/m1/metrics.txt": true, "agents/agent-1/flags.json": true, "masters/m1/log.json": false, "masters/m1/heap.pprof": false, "agents/agent-1/heap.pprof": false,
	} {
		if (len(files[name]) > 0) != there {
			t.Errorf("who may view has %d bytes of %s", len(files[name]), name)
		}
	}
}

// theSecretsAreSpread puts the secret where people put theirs: into a secret of a role, the environment and the command
// of a task that fails, the file of a job that fails, and the environment of the job manager.
func theSecretsAreSpread(t *testing.T, c *trusted, hidden string) {
	t.Helper()
	file := filepath.Join(c.dir, "secret")
	if err := os.WriteFile(file, []byte(hidden), 0o600); err != nil {
		t.Fatal(err)
	}
	c.must("secret", "set", "default/db", "--value-file", file)
	if _, stderr, code := tender(t, c.env, "run", "--env", "API_KEY="+hidden, "--", "sh", "-c", "exit 3 # "+hidden); code != 3 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	token := c.must("token", "create", "framework", "--principal", "jobs")
	start(t, []string{"TENDER_TOKEN=" + token, "TENDER_MASTER=" + c.masters[0]}, "jobs", "--port", strconv.Itoa(freePort(t)))
	job := filepath.Join(c.dir, "job.toml")
	text := "name = 'load'\ntype = 'batch'\n[task]\ncommand = 'test -z $DB_PASSWORD'\nenv = {DB_PASSWORD = '" + hidden + "'}\n"
	if err := os.WriteFile(job, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "the job manager answers people", func() bool {
		_, _, code := tender(t, c.env, "job", "list")
		return code == 0
	})
	if _, stderr, code := tender(t, c.env, "job", "run", job); code != 1 || !strings.Contains(stderr, "load") {
		t.Fatalf("a job that fails: exit code %d: %s", code, stderr)
	}
}

// theSecretsOf returns parts of all keys and tokens that are in folders of the cluster.
func theSecretsOf(t *testing.T, c *trusted) (secrets []string) {
	t.Helper()
	keys := 0
	for _, pattern := range []string{"m1/cluster.key", "m1/operator.token", "a1/certificate.pem"} {
		text := fileText(t, filepath.Join(c.dir, pattern))
		if at := strings.LastIndex(text, "_"); strings.HasPrefix(text, "tender1_") {
			secrets = append(secrets, text[at+1:])
			continue
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "-----END") {
				break // certificates follow, which are no secrets
			} else if !strings.HasPrefix(line, "-") && !strings.Contains(line, ":") && len(line) > 20 {
				secrets = append(secrets, line)
				keys++
			}
		}
	}
	if keys < 2 || len(secrets) < 3 {
		t.Fatalf("only %d secrets were found", len(secrets))
	}
	return secrets
}

func fileText(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(readText(t, name))
}

// unpacked returns the files of an archive. Those that are packed themselves are unpacked too.
func unpacked(t *testing.T, name string) map[string][]byte {
	t.Helper()
	packed, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(zipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(content[:min(2, len(content))], []byte{0x1f, 0x8b}) {
			inner, err := gzip.NewReader(bytes.NewReader(content))
			if err != nil {
				t.Fatal(err)
			}
			if content, err = io.ReadAll(inner); err != nil {
				t.Fatal(err)
			}
		}
		files[strings.TrimPrefix(header.Name, "tender-debug/")] = content
	}
}
