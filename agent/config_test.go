package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/api"
)

func TestDetect(t *testing.T) {
	found := Detect(filepath.Join(t.TempDir(), "not", "there", "yet"))
	for _, name := range []string{"cpus", "mem", "disk"} {
		if found.Scalar(name) <= 0 {
			t.Errorf("no %s in %s", name, found)
		}
	}
	if ports := found.RangesOf("ports"); !ports.Contains(api.Ranges{{Begin: 31000, End: 32000}}) {
		t.Errorf("ports are %s", ports)
	}
	if err := found.Check(); err != nil {
		t.Error(err)
	}
}

// If the data folder has a long path, its socket is in a short runtime folder. That is always the same folder, and no
// other data folder has it (R32).
func TestSocketPath(t *testing.T) {
	short := newDataFolder(t.TempDir(), zerolog.Nop())
	if path, err := short.socketPath(); err != nil || path != short.path+"/sockets/executors.sock" {
		t.Errorf("%q, %v", path, err)
	}
	long := newDataFolder(filepath.Join(t.TempDir(), strings.Repeat("x", socketBytesMax)), zerolog.Nop())
	if err := os.MkdirAll(long.path, 0o755); err != nil {
		t.Fatal(err)
	}
	path, err := long.socketPath()
	if err != nil || len(path) > socketBytesMax {
		t.Fatalf("%q, %v", path, err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(filepath.Dir(path)); err != nil {
			t.Error(err)
		}
	})
	if again, err := long.socketPath(); err != nil || again != path {
		t.Errorf("then %q, %v", again, err)
	}
	if err := os.Chmod(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := long.socketPath(); err == nil {
		t.Error("a folder that others can enter was taken")
	}
}

// TestSocketPathFlips: the file that names the socket is accepted if it is as it was written. Otherwise it is refused,
// with what to do.
func TestSocketPathFlips(t *testing.T) {
	folder := "/tmp/tender-1000-0123456789ab"
	whole := folder + "-" + checksumOf(folder) + "/executors.sock\n"
	if path, err := readSocketPath(whole); err != nil || path+"\n" != whole {
		t.Errorf("%q: %q, %v", whole, path, err)
	}
	look := func(named string) {
		path, err := readSocketPath(named)
		if err == nil && path+"\n" != whole || err != nil && !strings.Contains(err.Error(), "delete the file") {
			t.Errorf("%q: %q, %v", named, path, err)
		}
	}
	for at := range whole {
		look(whole[:at])
		for bit := range 8 {
			bad := []byte(whole)
			bad[at] ^= 1 << bit
			look(string(bad))
		}
	}
}

func TestAddress(t *testing.T) {
	listener := loopback(t)
	defer listener.Close()
	bound := listener.Addr().String()
	_, portText, _ := strings.Cut(bound, ":")
	for advertise, want := range map[string]string{"": bound, "host": "host:" + portText, "host:80": "host:80", "::1": "[::1]:" + portText} {
		if got := (Config{Advertise: advertise}).address(listener.Addr()); got != want {
			t.Errorf("%q becomes %q, wanted %q", advertise, got, want)
		}
	}
}

// TestAdvertisedNowhere: an address that nobody can reach is refused at the start, before anybody needs it for a task's
// logs.
func TestAdvertisedNowhere(t *testing.T) {
	for advertise, want := range map[string]string{
		"node-7": "", "node7.example": "", "10.0.0.7:5051": "", "::1": "", "[fe80::1%eth0]:5051": "",
		"http://node7": "neither HOST nor HOST:PORT", "node7/x": "neither the name of a host nor an address",
		"node7:99999": "with a port from 1 to 65535", "node7:0": "with a port from 1 to 65535", "node7:http": "with a port from 1 to 65535",
		"0.0.0.0": "nobody reaches a machine at 0.0.0.0", "[::]:5051": "nobody reaches a machine at ::", ":5051": `"" is neither`,
	} {
		_, err := New(Config{DataDir: t.TempDir(), Resources: api.Scalars(1, 64), Advertise: advertise})
		if want == "" && err != nil || want != "" && (!api.Is(err, api.Invalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, wanted %q", advertise, err, want)
		}
	}
}

// TestPathsThatLeadNowhere: a relative path is refused. It would be another folder for each task, with files that the
// task itself has made.
func TestPathsThatLeadNowhere(t *testing.T) {
	for _, path := range []string{"bin", "/usr/bin:bin", "/usr/bin::/bin", "."} {
		config := Config{DataDir: t.TempDir(), Resources: api.Scalars(1, 64)}
		config.Path = path
		if _, err := New(config); !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), "from / on") {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// TestPortsThatAreNone: ports on which no task could listen are refused before they are offered.
func TestPortsThatAreNone(t *testing.T) {
	for text, right := range map[string]bool{
		"ports:[1-65535]": true, "cpus:100000": true, "licenses:[0-99999]": true,
		"ports:[0-10]": false, "cpus:1;ports:[31000-31010,65000-65536]": false, "ports(web):[70000]": false,
	} {
		resources, err := api.ParseResources(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(Config{DataDir: t.TempDir(), Resources: resources})
		if right && err != nil || !right && (!api.Is(err, api.Invalid) || !strings.Contains(err.Error(), "no ports but 1 to 65535")) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestEveryAddress: an agent that is bound to all addresses must be told at which of them others reach it. An agent
// that has run without being told may go on, for the sake of its tasks.
func TestEveryAddress(t *testing.T) {
	config := Config{DataDir: t.TempDir(), Bind: "::", Resources: api.Scalars(1, 64)}
	if _, err := New(config); !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), "--advertise HOST") {
		t.Errorf("a first start: %v", err)
	}
	for name, right := range map[string]func(*Config){
		"advertised": func(c *Config) { c.Advertise = "node-7" },
		"no HTTP":    func(c *Config) { c.Port = -1 },
		"one":        func(c *Config) { c.Bind = "127.0.0.1" },
		"begun": func(c *Config) {
			if err := os.WriteFile(filepath.Join(c.DataDir, "identity"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		told := config
		told.DataDir = t.TempDir()
		right(&told)
		if _, err := New(told); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRecoveryTimeout: without one the agent's executors wait as long as the documentation says, and the agent says so
// when it leaves.
func TestRecoveryTimeout(t *testing.T) {
	config, err := Config{DataDir: t.TempDir(), Resources: api.Scalars(1, 64)}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	tellLeaving(zerolog.New(&said), nil, 1, config.RecoveryTimeout)
	if !strings.Contains(said.String(), `"wait":"15m0s"`) {
		t.Error(said.String())
	}
}
