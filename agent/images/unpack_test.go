package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/testing/oci"
)

// unpacked unpacks an archive into a folder. Nothing else may change beside it.
func unpacked(t testing.TB, archive []byte, room int64) (tree string, err error) {
	t.Helper()
	tree = filepath.Join(t.TempDir(), "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(tree)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	u := &unpacker{ctx: t.Context(), root: root, owners: os.Geteuid() == 0, makeRoom: func(bytes int64) error {
		if room -= bytes; room < 0 {
			return tooMuch("no room")
		}
		return nil
	}}
	return tree, u.unpack(bytes.NewReader(archive))
}

const plenty = 64 << 20

func unpackedFiles(t testing.TB, files ...oci.File) (tree string, err error) {
	t.Helper()
	return unpacked(t, oci.Tar(t, files...), plenty)
}

func TestUnpack(t *testing.T) {
	tree, err := unpackedFiles(t,
		oci.File{Name: "etc/"}, oci.File{Name: "etc/passwd", Content: "root:x:0:0::/:/bin/sh\n", Mode: 0o644},
		oci.File{Name: "./bin/program", Content: "run", Mode: 0o4755}, // set-user-ID
		oci.File{Name: "/absolute", Content: "from the root"},
		oci.File{Name: "lib", Type: tar.TypeSymlink, Link: "usr/lib"},
		oci.File{Name: "outside", Type: tar.TypeSymlink, Link: "/../../etc"},
		oci.File{Name: "bin/other", Type: tar.TypeLink, Link: "bin/program"},
		oci.File{Name: "tmp/", Mode: 0o1777},
		oci.File{Name: "dev/null", Type: tar.TypeChar}, oci.File{Name: "dev/sda", Type: tar.TypeBlock}, oci.File{Name: "pipe", Type: tar.TypeFifo},
		oci.File{Name: "twice", Content: "first"}, oci.File{Name: "twice", Content: "second"},
		oci.File{Name: "now-a-folder", Content: "x"}, oci.File{Name: "now-a-folder/"}, oci.File{Name: "now-a-folder/file", Content: "y"},
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"etc/passwd": "root:x:0:0::/:/bin/sh\n", "bin/program": "run", "bin/other": "run", "absolute": "from the root", "twice": "second", "now-a-folder/file": "y",
	} {
		if got, err := os.ReadFile(filepath.Join(tree, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]fs.FileMode{
		"bin/program": 0o755, "etc/passwd": 0o644, "tmp": fs.ModeDir | fs.ModeSticky | 0o777, "bin": fs.ModeDir | 0o755,
	} {
		if info, err := os.Lstat(filepath.Join(tree, name)); err != nil || info.Mode() != want {
			t.Errorf("%s has the mode %v, %v", name, info.Mode(), err)
		}
	}
	for name, want := range map[string]string{"lib": "usr/lib", "outside": "/../../etc"} {
		if got, err := os.Readlink(filepath.Join(tree, name)); err != nil || got != want {
			t.Errorf("%s leads to %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"dev/null", "dev/sda", "pipe"} {
		if _, err := os.Lstat(filepath.Join(tree, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
}

// Files belong to the users that the layer names.
func TestUnpackGivesFilesToTheirOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	tree, err := unpackedFiles(t, oci.File{Name: "home/", UID: 1001, GID: 1002}, oci.File{Name: "home/file", UID: 1003, GID: 1004},
		oci.File{Name: "home/link", Type: tar.TypeSymlink, Link: "file", UID: 1005, GID: 1006})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]uint32{"home": {1001, 1002}, "home/file": {1003, 1004}, "home/link": {1005, 1006}} {
		info, err := os.Lstat(filepath.Join(tree, name))
		if err != nil {
			t.Fatal(err)
		}
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != want[0] || stat.Gid != want[1] {
			t.Errorf("%s belongs to %d:%d", name, stat.Uid, stat.Gid)
		}
	}
}

// What leads out of the image, or can't exist, is refused with its name.
func TestUnpackRefuses(t *testing.T) {
	for want, files := range map[string][]oci.File{
		"leads out of the image":         {{Name: "../out", Content: "bad"}},
		"\"a/../../out\": the name":      {{Name: "a/../../out", Content: "bad"}},
		"\"up/\": the name leads":        {{Name: "up/../"}, {Name: "up/"}},
		"the link to":                    {{Name: "link", Type: tar.TypeLink, Link: "../../etc/passwd"}},
		"is not in its layer":            {{Name: "link", Type: tar.TypeLink, Link: "etc/passwd"}},
		"which may have one only":        {{Name: "etc/"}, {Name: "link", Type: tar.TypeLink, Link: "etc"}},
		"through a link":                 {{Name: "out", Type: tar.TypeSymlink, Link: "../../.."}, {Name: "out/file", Content: "bad"}},
		"through an absolute link":       {{Name: "out", Type: tar.TypeSymlink, Link: "/tmp"}, {Name: "out/file", Content: "bad"}},
		"a link's file through a link":   {{Name: "out", Type: tar.TypeSymlink, Link: "/etc"}, {Name: "x", Type: tar.TypeLink, Link: "out/passwd"}},
		"takes away what has no name":    {{Name: "a/.wh."}},
		"takes away what has no name ":   {{Name: "a/.wh..", Content: ""}},
		"takes away what has no name  ":  {{Name: "a/.wh...", Content: ""}},
		"the name has 5000 bytes":        {{Name: strings.Repeat("x", 5000), Content: "bad"}},
		"it would replace the root":      {{Name: ".", Type: tar.TypeReg, Content: "bad"}},
		"has no place in an image":       {{Name: "odd", Type: 'Z'}},
		"user 4294967295 and group 0":    {{Name: "whose", UID: math.MaxUint32}},
		"a whiteout that goes up: leads": {{Name: "a/../.wh.b"}},
	} {
		tree, err := unpackedFiles(t, files...)
		if err == nil {
			t.Errorf("%s: it was unpacked", want)
			continue
		}
		if said := strings.TrimSpace(want); !strings.Contains(want, "through") && !strings.Contains(want, "up") && !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %v", want, err)
		}
		if left, err := os.ReadDir(filepath.Dir(tree)); err != nil || len(left) != 1 {
			t.Errorf("%s: %v is beside the image, %v", want, left, err)
		}
	}
}

// Whiteouts are made as overlayfs expects them. What the layer itself has stays.
func TestWhiteouts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes folders that hide others")
	}
	tree, err := unpackedFiles(t,
		oci.File{Name: "a/"}, oci.File{Name: "a/.wh.gone"}, oci.File{Name: "deep/er/.wh.gone"},
		oci.File{Name: ".wh.stays"}, oci.File{Name: "stays", Content: "x"},
		oci.File{Name: "all/"}, oci.File{Name: "all/.wh..wh..opq"}, oci.File{Name: "all/new"},
		oci.File{Name: ".wh.replaced"}, oci.File{Name: "replaced/"}, oci.File{Name: "replaced/file"},
		oci.File{Name: ".wh..wh.plnk"},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/gone", "deep/er/gone"} {
		info, err := os.Lstat(filepath.Join(tree, name))
		if err != nil || info.Mode()&fs.ModeCharDevice == 0 || info.Sys().(*syscall.Stat_t).Rdev != 0 {
			t.Errorf("%s is %v, %v", name, info, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(tree, "stays")); err != nil || string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
	for name, want := range map[string]bool{"all": true, "replaced": true, "a": false} {
		folder, err := os.Open(filepath.Join(tree, name))
		if err != nil {
			t.Fatal(err)
		}
		if isOpaque(folder) != want {
			t.Errorf("%s hides what is below: %v", name, !want)
		}
		folder.Close()
	}
	if _, err := os.Lstat(filepath.Join(tree, ".wh.plnk")); err == nil {
		t.Error("a tool's own file was unpacked")
	}
}

// A layer that is too large is refused before it takes more than there is room for.
func TestBombsAreRefused(t *testing.T) {
	var many []oci.File
	for i := range 2000 {
		many = append(many, oci.File{Name: "empty/" + strings.Repeat("f", 1+i%50) + string(rune('a'+i/50))})
	}
	for name, archive := range map[string][]byte{
		"large":   oci.Tar(t, oci.File{Name: "large", Content: strings.Repeat("0", 5<<20)}),
		"many":    oci.Tar(t, many...),
		"claimed": claim(t, 1<<60),
		"folders": oci.Tar(t, oci.File{Name: strings.Repeat("d/", 200) + "f"}, oci.File{Name: strings.Repeat("d/", 300) + "f"}),
	} {
		tree, err := unpacked(t, archive, 4<<20)
		if !api.Is(err, api.Limit) {
			t.Errorf("%s: %v", name, err)
		}
		var bytes int64
		if err := filepath.WalkDir(tree, func(_ string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				info, failed := entry.Info()
				if err = failed; err == nil {
					bytes += info.Size()
				}
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		if bytes > 4<<20 {
			t.Errorf("%s: %d bytes were written", name, bytes)
		}
	}
	if err := whiteoutsOf(t, layerWhiteoutsMax+1); !api.Is(err, api.Limit) || !strings.Contains(err.Error(), "takes away more than 100000 files") {
		t.Errorf("whiteouts: %v", err)
	}
}

// claim returns an archive whose header says that its file has this size.
func claim(t *testing.T, size int64) []byte {
	var buffer bytes.Buffer
	if err := tar.NewWriter(&buffer).WriteHeader(&tar.Header{Name: "claimed", Size: size, Typeflag: tar.TypeReg, Format: tar.FormatPAX}); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func whiteoutsOf(t *testing.T, n int) error {
	u := &unpacker{ctx: t.Context()}
	for range n {
		if err := u.noteWhiteout("a", ".wh.x"); err != nil {
			return err
		}
	}
	return nil
}

// Whatever an archive contains, nothing is written outside of its folder, and nothing in there is a device or gives
// rights.
func FuzzUnpack(f *testing.F) {
	for _, files := range [][]oci.File{
		{{Name: "a/b", Content: "x"}, {Name: "c", Type: tar.TypeSymlink, Link: "../.."}, {Name: "c/d", Content: "y"}},
		{{Name: "../x", Content: "x"}, {Name: "/x", Content: "x"}},
		{{Name: "a/.wh.b"}, {Name: "a/.wh..wh..opq"}, {Name: "a/b", Content: "z"}},
		{{Name: "a", Content: "x", Mode: 0o6777}, {Name: "b", Type: tar.TypeLink, Link: "a"}, {Name: "a/c", Content: "x"}},
		{{Name: "l", Type: tar.TypeSymlink, Link: "/"}, {Name: "l/.wh.etc"}, {Name: "d", Type: tar.TypeBlock}},
	} {
		f.Add(oci.Tar(f, files...))
	}
	f.Fuzz(func(t *testing.T, archive []byte) {
		tree, err := unpacked(t, archive, 1<<20)
		if err != nil && errors.Is(err, io.ErrNoProgress) {
			t.Fatal(err)
		}
		beside := filepath.Dir(tree)
		if left, err := os.ReadDir(beside); err != nil || len(left) != 1 {
			t.Fatalf("%v is beside the image, %v", left, err)
		}
		if err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeNamedPipe|fs.ModeSocket) != 0 ||
				info.Mode()&fs.ModeDevice != 0 && (info.Mode()&fs.ModeCharDevice == 0 || info.Sys().(*syscall.Stat_t).Rdev != 0) {
				t.Errorf("%s is %v", path, info.Mode())
			}
			return nil
		}); err != nil && os.Geteuid() == 0 {
			t.Fatal(err)
		}
	})
}
