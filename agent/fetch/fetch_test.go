package fetch

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/api"
)

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// places makes a sandbox, and a folder with a file beside it.
func places(t *testing.T, name string, content []byte) (sandbox, source string) {
	folder := t.TempDir()
	sandbox, source = filepath.Join(folder, "sandbox"), filepath.Join(folder, "source", name)
	for _, dir := range []string{sandbox, filepath.Dir(source)} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(source, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return sandbox, source
}

// rootOf opens a sandbox for the test.
func rootOf(t *testing.T, sandbox string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(sandbox)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	})
	return root
}

func TestFetch(t *testing.T) {
	content := []byte("content")
	sandbox, source := places(t, "file.txt", content)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/dir/file.txt" {
			http.NotFound(w, r)
			return
		}
		w.Write(content)
	}))
	defer server.Close()
	for _, c := range []struct {
		uri  api.URI
		name string // the path it has then
		want string // the content, or the error
	}{
		{api.URI{Source: source}, "file.txt", ""},
		{api.URI{Source: source, Name: "sub/other", Executable: true}, "sub/other", ""},
		{api.URI{Source: "file://" + source, Name: "by-uri"}, "by-uri", ""},
		{api.URI{Source: "file://localhost" + source, Name: "by-local-uri", SHA256: strings.ToUpper(hash(content))}, "by-local-uri", ""},
		{api.URI{Source: server.URL + "/dir/file.txt?x=y", SHA256: hash(content)}, "file.txt", ""},
		{api.URI{Source: server.URL + "/dir/file.txt"}, "", "needs its sha256"},
		{api.URI{Source: server.URL + "/other", SHA256: hash(content)}, "", "404"},
		{api.URI{Source: server.URL + "/dir/file.txt", Name: "wrong", SHA256: hash(nil)}, "", "its sha256 is"},
		{api.URI{Source: source, Name: "../out"}, "", "no name inside a sandbox"},
		{api.URI{Source: source, Name: "/etc/out"}, "", "no name inside a sandbox"},
		{api.URI{Source: server.URL}, "", "no name inside a sandbox"},
		{api.URI{Source: "file://elsewhere/x"}, "", "absolute path on the agent"},
		{api.URI{Source: "ftp://host/x"}, "", "not an absolute path"},
		{api.URI{Source: "relative"}, "", "not an absolute path"},
		{api.URI{Source: filepath.Dir(source)}, "", "not a regular file"},
		{api.URI{Source: "/dev/zero"}, "", "not a regular file"},
		{api.URI{Source: source + ".missing"}, "", "no such file"},
		{api.URI{Source: source, Extract: true}, "", "it is no archive, but holds 7 bytes; what can be unpacked is .zip"},
	} {
		err := Fetcher{}.Fetch(t.Context(), rootOf(t, sandbox), []api.URI{c.uri})
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.uri.Source) {
				t.Errorf("%+v: %v, wanted %q", c.uri, err, c.want)
			}
		case err != nil:
			t.Errorf("%+v: %v", c.uri, err)
		default:
			got, err := os.ReadFile(filepath.Join(sandbox, c.name))
			if err != nil || string(got) != "content" {
				t.Errorf("%+v: %q, %v", c.uri, got, err)
			}
			if info, err := os.Stat(filepath.Join(sandbox, c.name)); err == nil && info.Mode()&0o100 != 0 != c.uri.Executable {
				t.Errorf("%+v: mode %v", c.uri, info.Mode())
			}
		}
	}
	if _, err := os.Stat(filepath.Join(sandbox, "wrong")); err == nil {
		t.Error("a file with a wrong hash is there")
	}
	if err := (Fetcher{BytesMax: 3}).Fetch(t.Context(), rootOf(t, sandbox), []api.URI{{Source: source}}); err == nil || !strings.Contains(err.Error(), "larger than 3 bytes") {
		t.Errorf("too large: %v", err)
	}
}

// item is one entry of an archive.
type item struct {
	name, content, link string
	kind                byte // the type in a tar; 0 = it follows from the other fields
}

func must(t *testing.T, w io.Writer, data []byte) {
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
}

func tarOf(t *testing.T, entries []item) []byte {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Typeflag: tar.TypeReg, Mode: 0o4755, Size: int64(len(e.content)), Linkname: e.link}
		switch {
		case e.kind != 0:
			header.Typeflag, header.Size = e.kind, 0
		case e.link != "":
			header.Typeflag = tar.TypeSymlink
		case strings.HasSuffix(e.name, "/"):
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			must(t, w, []byte(e.content))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func gzipOf(t *testing.T, data []byte) []byte {
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	must(t, w, data)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func zipOf(t *testing.T, entries []item) []byte {
	var buffer bytes.Buffer
	w := zip.NewWriter(&buffer)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name}
		header.SetMode(0o755)
		content := e.content
		if e.link != "" {
			header.SetMode(os.ModeSymlink | 0o777)
			content = e.link
		}
		f, err := w.CreateHeader(header)
		if err != nil {
			t.Fatal(err)
		}
		must(t, f, []byte(content))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestExtract(t *testing.T) {
	entries := []item{{name: "dir/"}, {name: "dir/program", content: "run"}, {name: "deep/er/file", content: "x"}, {name: "dir/link", link: "../deep/er/file"}}
	for name, archive := range map[string][]byte{
		"a.tar": tarOf(t, entries), "a.tar.gz": gzipOf(t, tarOf(t, entries)), "a.zip": zipOf(t, entries), "named-otherwise": zipOf(t, entries),
	} {
		sandbox, source := places(t, name, archive)
		for range 2 { // the second time over what is there, as after a restart
			if err := (Fetcher{}).Fetch(t.Context(), rootOf(t, sandbox), []api.URI{{Source: source, Extract: true}}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for file, want := range map[string]string{"dir/program": "run", "deep/er/file": "x", "dir/link": "x"} {
			if got, err := os.ReadFile(filepath.Join(sandbox, file)); err != nil || string(got) != want {
				t.Errorf("%s: %s is %q, %v", name, file, got, err)
			}
		}
		if info, err := os.Stat(filepath.Join(sandbox, "dir/program")); err != nil || info.Mode() != 0o755 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
}

// What can't be unpacked is refused by a sentence that says what can be.
func TestWhatIsNoArchive(t *testing.T) {
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	_, err := writer.Write([]byte("only compressed\n"))
	if err = errors.Join(err, writer.Close()); err != nil {
		t.Fatal(err)
	}
	for want, content := range map[string]string{
		"compressed with xz;":             "\xfd7zXZ\x00\x00\x04",
		"compressed with zstd;":           "\x28\xb5\x2f\xfd\x04",
		"no archive, but holds 16 bytes;": compressed.String(),
		"no archive, but holds 3 bytes;":  "abc",
		"no archive, but holds 0 bytes;":  "",
		"it is no archive;":               strings.Repeat("some text\n", 100),
	} {
		sandbox, source := places(t, "file", []byte(content))
		err := Fetcher{}.Fetch(t.Context(), rootOf(t, sandbox), []api.URI{{Source: source, Extract: true}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), kinds) {
			t.Errorf("%v, want %q and the kinds", err, want)
		}
	}
}

// A tar compressed by bzip2, made by "tar cjf" of the file d/f with the line "hi".
func TestBzip2(t *testing.T) {
	archive, err := base64.StdEncoding.DecodeString(bzip2OfTar)
	if err != nil {
		t.Fatal(err)
	}
	sandbox, source := places(t, "a.tar.bz2", archive)
	if err := (Fetcher{}).Fetch(t.Context(), rootOf(t, sandbox), []api.URI{{Source: source, Extract: true}}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(sandbox, "d/f")); string(got) != "hi\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// A zip made by programs for Windows has backslashes in all names. One that also has slashes means backslashes.
func TestZipOfWindows(t *testing.T) {
	sandbox, source := places(t, "w.zip", zipOf(t, []item{{name: `app\empty\`}, {name: `app\conf\a.txt`, content: "hello"}, {name: "top", content: "t"}}))
	if err := (Fetcher{}).Fetch(t.Context(), rootOf(t, sandbox), []api.URI{{Source: source, Extract: true}}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(sandbox, "app/conf/a.txt")); string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := os.Stat(filepath.Join(sandbox, "app/empty")); err != nil || !info.IsDir() {
		t.Errorf("the empty folder: %v", err)
	}
	sandbox, source = places(t, "mixed.zip", zipOf(t, []item{{name: `a\b`, content: "x"}, {name: "c/d", content: "y"}}))
	err := Fetcher{}.Fetch(t.Context(), rootOf(t, sandbox), []api.URI{{Source: source, Extract: true}})
	if err == nil || !strings.Contains(err.Error(), "backslash") {
		t.Errorf("a name with a backslash: %v", err)
	}
}

// All files of a sandbox together, with what is unpacked of them, take no more than the task's disk.
func TestFilesStayWithinTheDiskOfATask(t *testing.T) {
	zeros := tarOf(t, []item{{name: "zeros", content: strings.Repeat("0", 40_000)}})
	sandbox, source := places(t, "a.tar", zeros)
	again := api.URI{Source: source, Name: "again.tar", Extract: true}
	all := []api.URI{{Source: source, Extract: true}, again}
	if err := (Fetcher{DiskMax: int64(2*len(zeros) + 80_000)}).Fetch(t.Context(), rootOf(t, sandbox), all); err != nil {
		t.Fatal(err)
	}
	for _, most := range []int64{10_000, int64(len(zeros)), int64(len(zeros) + 39_999), int64(2*len(zeros) + 79_999)} {
		sandbox, _ := places(t, "x", nil)
		if err := (Fetcher{DiskMax: most}).Fetch(t.Context(), rootOf(t, sandbox), all); !errors.Is(err, ErrDisk) {
			t.Errorf("of %d bytes: %v", most, err)
		}
	}
}

// What leads out of the sandbox is refused, and nothing outside is changed.
func TestNothingLeavesTheSandbox(t *testing.T) {
	const bad = "bad"
	corpus := map[string][]item{
		"parent":             {{name: "../out", content: bad}},
		"deep parent":        {{name: "a/../../out", content: bad}},
		"absolute":           {{name: "/tmp/tender-out", content: bad}},
		"backslash":          {{name: `..\out`, content: bad}},
		"folder":             {{name: "../out/"}},
		"the sandbox itself": {{name: ".", content: bad}},
		"link out":           {{name: "link", link: "../out"}},
		"link absolute":      {{name: "link", link: "/etc"}},
		"link deep out":      {{name: "a/b/link", link: "../../../out"}},
		"through a link": {{name: "a/"}, {name: "a/b", link: ".."}, {name: "a/b/c", link: ".."},
			{name: "a/b/c/out", content: bad}},
		"link to the parent by two": {{name: "one", link: "."}, {name: "one/two", link: ".."}, {name: "one/two/out", content: bad}},
	}
	onlyTar := map[string][]item{
		"hard link out":      {{name: "hard", link: "../source/secret", kind: tar.TypeLink}},
		"hard link absolute": {{name: "hard", link: "/etc/passwd", kind: tar.TypeLink}},
		"device":             {{name: "dev", kind: tar.TypeChar}},
		"fifo":               {{name: "pipe", kind: tar.TypeFifo}},
	}
	try := func(name string, archive []byte) {
		t.Run(name, func(t *testing.T) {
			sandbox, source := places(t, "archive", archive)
			err := Fetcher{}.Fetch(t.Context(), rootOf(t, sandbox), []api.URI{{Source: source, Extract: true}})
			if err == nil {
				t.Error("it was taken")
			}
			if _, err := os.Lstat(filepath.Join(filepath.Dir(sandbox), "out")); err == nil {
				t.Error("it was written outside")
			}
			if list, err := os.ReadDir(filepath.Dir(sandbox)); err != nil || len(list) != 2 {
				t.Errorf("beside the sandbox there is %v, %v", list, err)
			}
		})
	}
	for name, entries := range corpus {
		try("tar "+name, tarOf(t, entries))
		try("zip "+name, zipOf(t, entries))
	}
	for name, entries := range onlyTar {
		try("tar "+name, tarOf(t, entries))
	}
}

// A small archive can't fill the disk.
func TestBombsAreBounded(t *testing.T) {
	many := make([]item, 100)
	for i := range many {
		many[i] = item{name: strings.Repeat("x", i+1), content: strings.Repeat("0", 1000)}
	}
	for name, c := range map[string]struct {
		f    Fetcher
		want string
	}{
		"bytes":   {Fetcher{BytesMax: 30_000}, "larger than"},
		"entries": {Fetcher{EntriesMax: 50}, "more than 50 entries"},
	} {
		for kind, archive := range map[string][]byte{"tar": gzipOf(t, tarOf(t, many)), "zip": zipOf(t, many)} {
			sandbox, source := places(t, "archive", archive)
			err := c.f.Fetch(t.Context(), rootOf(t, sandbox), []api.URI{{Source: source, Extract: true}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %s: %v", kind, name, err)
			}
		}
	}
}

func FuzzExtract(f *testing.F) {
	t := &testing.T{}
	entries := []item{{name: "dir/"}, {name: "dir/f", content: "x"}, {name: "l", link: "dir/f"}}
	f.Add(tarOf(t, entries))
	f.Add(gzipOf(t, tarOf(t, entries)))
	f.Add(zipOf(t, entries))
	f.Fuzz(func(t *testing.T, archive []byte) {
		sandbox, source := places(t, "archive", archive)
		_ = Fetcher{BytesMax: 1 << 20, EntriesMax: 100}.Fetch(t.Context(), rootOf(t, sandbox), []api.URI{{Source: source, Extract: true}})
		if list, err := os.ReadDir(filepath.Dir(sandbox)); err != nil || len(list) != 2 {
			t.Errorf("beside the sandbox there is %v, %v", list, err)
		}
	})
}

// No server can redirect the agent to its own machine or to link-local addresses. An address of this machine that the
// URI itself names is used.
func TestServersDoNotSendOnToTheAgent(t *testing.T) {
	asked := false
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked = true
		fmt.Fprint(w, "secret")
	}))
	defer secret.Close()
	for name, target := range map[string]string{
		"this machine": secret.URL, "its name": strings.Replace(secret.URL, "127.0.0.1", "localhost", 1), "the link": "http://169.254.169.254/latest/meta-data", "everywhere": "http://0.0.0.0:1/",
		"this machine by another spelling": "http://[::ffff:127.0.0.1]:1/",
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.RedirectHandler(target, http.StatusFound))
			defer server.Close()
			uri := api.URI{Source: server.URL + "/file", SHA256: hash([]byte("secret"))}
			err := Fetcher{}.Fetch(t.Context(), rootOf(t, t.TempDir()), []api.URI{uri})
			if err == nil || !strings.Contains(err.Error(), "--fetch-local") || asked {
				t.Errorf("asked: %v, %v", asked, err)
			}
		})
	}
	uri := api.URI{Source: secret.URL + "/file", SHA256: hash([]byte("secret"))}
	if err := (Fetcher{}).Fetch(t.Context(), rootOf(t, t.TempDir()), []api.URI{uri}); err != nil {
		t.Error(err)
	}
	server := httptest.NewServer(http.RedirectHandler(secret.URL, http.StatusFound))
	defer server.Close()
	uri.Source = server.URL + "/file"
	if err := (Fetcher{Local: true}).Fetch(t.Context(), rootOf(t, t.TempDir()), []api.URI{uri}); err != nil {
		t.Error(err)
	}
}

// The error of a wrong checksum tells nothing about the content.
func TestWrongChecksumTellsNothing(t *testing.T) {
	source := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(source, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := hash(nil)
	err := Fetcher{}.Fetch(t.Context(), rootOf(t, t.TempDir()), []api.URI{{Source: source, SHA256: wrong}})
	if err == nil || !strings.Contains(err.Error(), wrong) || strings.Contains(err.Error(), hash([]byte("secret"))) {
		t.Error(err)
	}
}

// What is fetched into a user's sandbox belongs to that user, also what archives hold and what comes from the cache.
// Nothing is read for a user that the user could not read.
func TestFetchAsTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root fetches as somebody else")
	}
	const uid = 71234
	content := tarOf(t, []item{{name: "dir/file", content: "content"}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	defer server.Close()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, content, 0o600); err != nil {
		t.Fatal(err)
	}
	fetcher := Fetcher{Cache: filepath.Join(t.TempDir(), "cache")}
	uri := api.URI{Source: server.URL + "/archive", SHA256: hash(content), Extract: true}
	for range 2 { // first from the network, then from the cache
		sandbox := t.TempDir()
		if err := os.Chown(sandbox, uid, uid); err != nil {
			t.Fatal(err)
		}
		if err := fetcher.Fetch(t.Context(), rootOf(t, sandbox), []api.URI{uri}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"archive", "dir", "dir/file"} {
			info, err := os.Stat(filepath.Join(sandbox, name))
			if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != uid {
				t.Errorf("%s: %+v, %v", name, info, err)
			}
		}
		err := fetcher.Fetch(t.Context(), rootOf(t, sandbox), []api.URI{{Source: secret}})
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("what the user may not read: %v", err)
		}
	}
	if kept, err := os.ReadDir(fetcher.Cache); err != nil || len(kept) != 1 {
		t.Errorf("the cache has %v, %v", kept, err)
	}
}

const bzip2OfTar = "QlpoOTFBWSZTWbUpRHoAAI37hMmQAEJAAO+AAANlYJ4AAACACCAAdQlERkADRtTQAkpD1NGgaADRpInzdHBhkgIPQkjFovgF8XDD" +
	"wiOEgoAo5HnY4oPugIiTaCBiLUEoM1uj4qsVCQ303SzD0PSwkTKgmTGEg/F3JFOFCQtSlEeg"
