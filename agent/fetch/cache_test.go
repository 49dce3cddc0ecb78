package fetch

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
)

// shop serves each path's own text as its content, and counts requests.
func shop(t *testing.T) (address string, served *atomic.Int32) {
	served = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		_, _ = w.Write([]byte(strings.TrimPrefix(r.URL.Path, "/")))
	}))
	t.Cleanup(server.Close)
	return server.URL, served
}

func uriOf(address, content string) api.URI {
	sum := sha256.Sum256([]byte(content))
	return api.URI{Source: address + "/" + content, Name: "file", SHA256: hex.EncodeToString(sum[:]), Executable: true}
}

// brought fetches a file into a new sandbox and returns its content and path.
func brought(t *testing.T, f Fetcher, uri api.URI) (content, name string) {
	t.Helper()
	sandbox := t.TempDir()
	if err := f.Fetch(t.Context(), rootOf(t, sandbox), []api.URI{uri}); err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(sandbox, "file")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	return string(data), name
}

// TestCache: a file is fetched once, whatever address it has. A task that writes into its copy does no harm, nor does a
// kept file that was damaged.
func TestCache(t *testing.T) {
	address, served := shop(t)
	f := Fetcher{Cache: filepath.Join(t.TempDir(), "cache")}
	uri := uriOf(address, "hello")
	_, name := brought(t, f, uri)
	if err := os.WriteFile(name, []byte("spoiled"), 0o755); err != nil {
		t.Fatal(err)
	}
	uri.SHA256 = strings.ToUpper(uri.SHA256)
	uri.Source = strings.Replace(uri.Source, "hello", "other", 1) // this address would serve the wrong content
	if got, _ := brought(t, f, uri); got != "hello" || served.Load() != 1 {
		t.Errorf("the second sandbox has %q after %d requests", got, served.Load())
	}
	kept := filepath.Join(f.Cache, strings.ToLower(uri.SHA256))
	if err := os.WriteFile(kept, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	uri = uriOf(address, "hello")
	if got, _ := brought(t, f, uri); got != "hello" || served.Load() != 2 {
		t.Errorf("after the kept file broke: %q after %d requests", got, served.Load())
	}
	if data, err := os.ReadFile(kept); err != nil || string(data) != "hello" {
		t.Errorf("kept again: %q, %v", data, err)
	}
}

// TestDamageInTheCacheTakesNoRoom: what was written of a damaged file and is removed again does not count against what
// the sandbox may take.
func TestDamageInTheCacheTakesNoRoom(t *testing.T) {
	address, _ := shop(t)
	f := Fetcher{Cache: filepath.Join(t.TempDir(), "cache"), DiskMax: 6}
	uri := uriOf(address, "hello")
	brought(t, f, uri)
	if err := os.WriteFile(filepath.Join(f.Cache, uri.SHA256), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := brought(t, f, uri); got != "hello" {
		t.Errorf("the sandbox has %q", got)
	}
}

// TestCacheIsBounded: the least recently used file is removed, and a file that is too large is not kept.
func TestCacheIsBounded(t *testing.T) {
	address, served := shop(t)
	f := Fetcher{Cache: filepath.Join(t.TempDir(), "cache"), CacheBytesMax: 40}
	for _, content := range []string{"a123456789", "b123456789", "c123456789", "d123456789", "e123456789", "too large to be kept"} {
		uri := uriOf(address, content)
		brought(t, f, uri)
		age := time.Now().Add(-time.Hour * time.Duration('z'-content[0])) // so that no two have the same time
		if err := os.Chtimes(filepath.Join(f.Cache, uri.SHA256), age, age); err != nil && content[0] < 'f' {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(f.Cache)
	if err != nil || len(entries) != 4 {
		t.Errorf("%d files are kept, %v", len(entries), err)
	}
	before := served.Load()
	brought(t, f, uriOf(address, "e123456789"))
	if served.Load() != before {
		t.Error("the latest is gone")
	}
}
