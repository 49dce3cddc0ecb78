// Package oci makes images for tests, and a registry on loopback that has them.
package oci

import (
	"archive/tar"
	"bytes"
	"io"
	"log" //nolint:depguard // the library wants one, for nothing
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Registry is a registry for a test.
type Registry struct {
	// Host is its HOST:PORT.
	Host string
	// Asked counts the requests to it.
	Asked atomic.Int64
	// Before, if set, is called first; if it returns true, it has answered the request.
	Before func(w http.ResponseWriter, r *http.Request) bool
}

// Serve starts a registry that ends with the test.
func Serve(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{}
	has := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.Asked.Add(1)
		if before := r.Before; before == nil || !before(w, request) {
			has.ServeHTTP(w, request)
		}
	}))
	t.Cleanup(server.Close)
	r.Host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// Push puts an image, or a list of images, into the registry under a name such as "app:v1". It returns the whole
// reference, and the digest.
func (r *Registry) Push(t testing.TB, as string, what remote.Taggable) (reference, digest string) {
	t.Helper()
	named, err := name.ParseReference(r.Host + "/" + as)
	if err != nil {
		t.Fatal(err)
	}
	switch what := what.(type) {
	case v1.ImageIndex:
		err = remote.WriteIndex(named, what)
	case v1.Image:
		err = remote.Write(named, what)
	default:
		t.Fatalf("%T can't be pushed", what)
	}
	if err != nil {
		t.Fatal(err)
	}
	hash, err := what.(interface{ Digest() (v1.Hash, error) }).Digest()
	if err != nil {
		t.Fatal(err)
	}
	return named.Name(), hash.String()
}

// File is an entry of a layer. Without a Type it is a file, or a folder if its name ends with a slash.
type File struct {
	Name, Content, Link string
	Type                byte
	Mode                int64 // 0: 0755
	UID, GID            int
}

// Tar returns an archive of these entries.
func Tar(t testing.TB, files ...File) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, f := range files {
		header := &tar.Header{
			Name: f.Name, Linkname: f.Link, Typeflag: f.Type, Mode: f.Mode, Size: int64(len(f.Content)), Uid: f.UID, Gid: f.GID, Format: tar.FormatPAX,
		}
		if header.Mode == 0 {
			header.Mode = 0o755
		}
		switch {
		case f.Type != 0:
		case strings.HasSuffix(f.Name, "/"):
			header.Typeflag = tar.TypeDir
		default:
			header.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f.Content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// Layer returns a layer with these entries.
func Layer(t testing.TB, files ...File) v1.Layer { return LayerOf(t, Tar(t, files...)) }

// LayerOf returns a layer with this archive.
func LayerOf(t testing.TB, archive []byte) v1.Layer {
	t.Helper()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil })
	if err != nil {
		t.Fatal(err)
	}
	return layer
}

// Image returns an image for this machine.
func Image(t testing.TB, says v1.Config, layers ...v1.Layer) v1.Image {
	return ImageFor(t, v1.Platform{OS: "linux", Architecture: runtime.GOARCH}, says, layers...)
}

// ImageFor returns an image for a platform.
func ImageFor(t testing.TB, platform v1.Platform, says v1.Config, layers ...v1.Layer) v1.Image {
	t.Helper()
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = platform.OS, platform.Architecture, says
	if image, err = mutate.ConfigFile(image, file); err != nil {
		t.Fatal(err)
	}
	return image
}

// Index returns a list of images by platform.
func Index(t testing.TB, images ...v1.Image) v1.ImageIndex {
	t.Helper()
	index := v1.ImageIndex(empty.Index)
	for _, image := range images {
		file, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: file.Platform()}})
	}
	return index
}
