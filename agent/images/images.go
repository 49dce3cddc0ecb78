// Package images brings OCI images to an agent. It asks the registry for the digest of a tag, checks everything that
// comes by the digests in it, unpacks each layer once into a folder of the agent's own, and keeps these folders for
// later tasks, as many as its bound allows. The least recently used are deleted first, and never one that a task uses.
//
// No path in an image is followed out of the image's folder. An image that is too large, or has too many files, is
// refused (Limit) before it takes more than the cache may have. The package starts nothing and mounts nothing.
package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/api"
)

// Config says where images come from and where they are kept. Zero fields mean the defaults.
type Config struct {
	// Folder is where layers are kept. Required.
	Folder string
	// BytesMax is how much of the disk they may take. Default 10 GiB.
	BytesMax int64
	// InsecureRegistries are those that may be used without encryption, each as HOST or HOST:PORT. Registries at an
	// address of this machine always may. Default: none.
	InsecureRegistries []string
	// Credentials is a Docker configuration file with the credentials for registries. It is read for each image.
	// Default: no credentials are sent.
	Credentials string
	// Local lets registries be at link-local addresses, and lets them redirect the agent to its own machine.
	Local bool
	// Timeout bounds one image. Default 1 h.
	Timeout time.Duration
}

// BytesMaxDefault is the default of BytesMax.
const BytesMaxDefault = 10 << 30

const (
	// layersMax is how many layers an image may have: as many as one mount can have.
	layersMax = 127
	// configBytesMax bounds the manifest and the configuration of an image.
	configBytesMax = 4 << 20
)

// Image is an image whose layers are all unpacked.
type Image struct {
	// Reference is the image's reference with its digest.
	Reference string
	// Layers are the folders of the layers, the lowest first. A layer that the image lists several times, as it often
	// does with the empty one, is here once, at its last place: overlayfs takes no folder twice, and a layer decides
	// at its last place about all that it decided about before.
	Layers []string
	// Config is the image's own configuration.
	Config v1.Config
}

// Store keeps the images of one agent. It may be used from any goroutine.
type Store struct {
	config Config
	mutex  sync.Mutex
	layers map[string]*layer         // by the digest of the unpacked layer, in hex
	users  map[api.TaskRef][]*layer  // the layers that tasks use
	bytes  int64                     // the size of all layers
	work   map[string]chan struct{}  // layers that are being unpacked; the channel is closed when that has ended
	now    func() time.Time          // time.Now, except in tests
	remove func(folder string) error // os.RemoveAll, except in tests
}

// Open opens the store and finds the layers that are there. What was left unfinished is removed. No registry is asked.
func Open(config Config) (*Store, error) {
	if config.BytesMax <= 0 {
		config.BytesMax = BytesMaxDefault
	}
	if config.Timeout <= 0 {
		config.Timeout = time.Hour
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	s := &Store{
		config: config, layers: map[string]*layer{}, users: map[api.TaskRef][]*layer{}, work: map[string]chan struct{}{},
		now: time.Now, remove: os.RemoveAll,
	}
	for _, folder := range []string{s.at("layers"), s.at("manifests")} {
		if err := os.MkdirAll(folder, beneath.Private); err != nil {
			return nil, err
		}
		if err := os.Chmod(folder, beneath.Private); err != nil { // an existing folder may be open to others
			return nil, err
		}
	}
	return s, s.find()
}

// check refuses mistakes that otherwise only a task whose image can't be pulled would show.
func (c Config) check() error {
	for _, registry := range c.InsecureRegistries {
		if _, err := name.NewRegistry(registry); err != nil || registry == "" {
			return fmt.Errorf("insecure registry %q is no HOST or HOST:PORT; write it as references to its images begin, such as registry.example:5000", registry)
		}
	}
	if c.Credentials == "" {
		return nil
	}
	_, err := c.readCredentials()
	return err
}

func (s *Store) at(elements ...string) string {
	return filepath.Join(append([]string{s.config.Folder}, elements...)...)
}

// Pull makes an image available to a task, which uses it until Release. An image that is there is not asked for again,
// unless it is named by a tag: then its registry says what the tag now stands for. The caller runs Pull with the rights
// of this process.
func (s *Store) Pull(ctx context.Context, task api.TaskRef, reference string) (Image, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	image, err := s.pull(ctx, task, reference)
	if err != nil {
		s.Release(task)
		return Image{}, explain(reference, err)
	}
	return image, nil
}

func (s *Store) pull(ctx context.Context, task api.TaskRef, reference string) (Image, error) {
	named, err := s.parse(reference)
	if err != nil {
		return Image{}, err
	}
	if digest, is := named.(name.Digest); is {
		if known, err := s.readManifest(digest.DigestStr()); err == nil && s.hold(task, known.Layers) {
			return s.imageOf(named.Context(), digest.DigestStr(), known), nil
		}
	}
	found, err := s.ask(ctx, named)
	if err != nil {
		return Image{}, err
	}
	if err := s.bring(ctx, task, found); err != nil {
		return Image{}, err
	}
	if err := s.writeManifest(found); err != nil {
		return Image{}, err
	}
	return s.imageOf(named.Context(), found.digest, found.manifest), nil
}

func (s *Store) imageOf(from name.Repository, digest string, m manifest) Image {
	image := Image{Reference: from.Name() + "@" + digest, Config: m.Config}
	for i, layer := range m.Layers {
		if !slices.Contains(m.Layers[i+1:], layer) { // see Image.Layers
			image.Layers = append(image.Layers, s.at("layers", layer, treeName))
		}
	}
	return image
}

// manifest is what is kept about an image besides its layers.
type manifest struct {
	Layers []string  `json:"layers"` // the digests of the unpacked layers, in hex, the lowest first
	Config v1.Config `json:"config"`
}

// manifestsMax is how many manifests are kept. Beyond it all are forgotten, and the registries are asked again.
const manifestsMax = 1000

func (s *Store) manifestPath(digest string) (string, error) {
	hash, err := v1.NewHash(digest)
	if err != nil {
		return "", err
	}
	return s.at("manifests", hash.Algorithm+"-"+hash.Hex+"-"+runtime.GOARCH+".json"), nil
}

func (s *Store) readManifest(digest string) (m manifest, err error) {
	path, err := s.manifestPath(digest)
	if err != nil {
		return m, err
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

func (s *Store) writeManifest(f *found) error {
	path, err := s.manifestPath(f.digest)
	if err != nil {
		return err
	}
	text, err := json.Marshal(f.manifest)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(s.at("manifests"), "new-")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	s.forgetManifests()
	return nil
}

// forgetManifests removes all manifests when there are more than manifestsMax.
func (s *Store) forgetManifests() {
	entries, err := os.ReadDir(s.at("manifests"))
	if err != nil || len(entries) <= manifestsMax {
		return
	}
	for _, entry := range entries {
		_ = os.Remove(s.at("manifests", entry.Name())) // one that stays does no harm
	}
}

// found is an image as its registry describes it.
type found struct {
	image    v1.Image
	digest   string // the digest that the reference stands for: of the image, or of a list of images
	manifest manifest
}

// bring fetches all layers of an image that are not there.
func (s *Store) bring(ctx context.Context, task api.TaskRef, f *found) error {
	layers, err := f.image.Layers()
	if err != nil {
		return err
	}
	if len(layers) != len(f.manifest.Layers) {
		return fmt.Errorf("it has %d layers and names %d of them unpacked", len(layers), len(f.manifest.Layers))
	}
	for i, source := range layers {
		if err := s.bringLayer(ctx, task, f.manifest.Layers[i], source); err != nil {
			return err
		}
	}
	return nil
}
