package images

import (
	"errors"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// said is an image as a registry describes it: its manifest and its configuration, both as bytes.
type said struct{ manifest, config []byte }

func (s said) RawManifest() ([]byte, error)        { return s.manifest, nil }
func (s said) RawConfigFile() ([]byte, error)      { return s.config, nil }
func (s said) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
func (s said) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) {
	return nil, errors.New("there is none")
}

// FuzzManifest: whatever a registry says of an image, it is an image whose layers are known by their sha256 or it is
// refused.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":2,"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"},"layers":[]}`),
		[]byte(`{"os":"linux","architecture":"amd64","config":{"Cmd":["sh"]},"rootfs":{"type":"layers","diff_ids":[]}}`))
	f.Add([]byte(`{`), []byte(`[]`))
	f.Add([]byte(`{"layers":[{"urls":["http://x"]}]}`), []byte(`{"rootfs":{"diff_ids":["md5:1"]}}`))
	f.Fuzz(func(t *testing.T, manifest, config []byte) {
		image, err := partial.CompressedToImage(said{manifest, config})
		if err != nil {
			return
		}
		m, err := inspect(image)
		if err != nil {
			return
		}
		for _, layer := range m.Layers {
			if len(layer) != 64 {
				t.Fatalf("a layer is known as %q", layer)
			}
		}
	})
}
