package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/configfile"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/tenderhq/tender/agent/fetch"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/version"
)

// parse reads a reference. For a registry that may be used without encryption the result allows that.
func (s *Store) parse(reference string) (name.Reference, error) {
	named, err := name.ParseReference(reference)
	if err != nil {
		return nil, errors.New("it is no reference to an image; write one such as docker.io/library/alpine:3.20, or with @sha256: and a digest")
	}
	if s.isPlain(named.Context().RegistryStr()) {
		return name.ParseReference(reference, name.Insecure)
	}
	return named, nil
}

// isPlain says whether a registry may be used without encryption.
func (s *Store) isPlain(registry string) bool {
	host := hostOf(registry)
	return isLoopback(host) || slices.Contains(s.config.InsecureRegistries, registry) || slices.Contains(s.config.InsecureRegistries, host)
}

// hostOf returns a registry without its port.
func hostOf(registry string) string {
	if host, _, err := net.SplitHostPort(registry); err == nil {
		return host
	}
	return strings.Trim(registry, "[]")
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// platform is what images must be built for: the platform of this agent.
var platform = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}

// ask asks the registry for an image.
func (s *Store) ask(ctx context.Context, named name.Reference) (*found, error) {
	who, err := s.credentials(named.Context().Registry)
	if err != nil {
		return nil, err
	}
	description, err := remote.Get(named, remote.WithContext(ctx), remote.WithAuth(who), remote.WithPlatform(platform),
		remote.WithTransport(s.newGuard(named)), remote.WithUserAgent("tender/"+version.String()))
	if err != nil {
		return nil, err
	}
	image, err := imageIn(description)
	if err != nil {
		return nil, err
	}
	f := &found{image: image, digest: description.Digest.String()}
	f.manifest, err = inspect(image)
	return f, err
}

// imageIn returns the image of a description. From a list it takes the one for this agent.
func imageIn(description *remote.Descriptor) (v1.Image, error) {
	switch {
	case description.MediaType.IsImage():
		return description.Image()
	case !description.MediaType.IsIndex():
		return nil, fmt.Errorf("it is of a form that is not known here (%.100s); build it anew as an image of OCI or Docker", description.MediaType)
	}
	index, err := description.ImageIndex()
	if err != nil {
		return nil, err
	}
	list, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var others []string
	for _, listed := range list.Manifests {
		switch {
		case listed.Platform == nil || !listed.MediaType.IsImage():
		case listed.Platform.Satisfies(platform):
			return index.Image(listed.Digest)
		default:
			others = append(others, listed.Platform.OS+"/"+listed.Platform.Architecture)
		}
	}
	return nil, fmt.Errorf("there is none of it for %s/%s, what this agent is, but for %.200s; build one, or have the task run elsewhere",
		platform.OS, platform.Architecture, strings.Join(others, ", "))
}

// inspect reads the image's manifest and configuration, and refuses what can't run here before anything else is
// fetched.
func inspect(image v1.Image) (m manifest, err error) {
	says, err := image.Manifest()
	if err != nil {
		return m, err
	}
	switch {
	case len(says.Layers) > layersMax:
		return m, tooMuch("it has %d layers; at most %d are allowed", len(says.Layers), layersMax)
	case says.Config.Size > configBytesMax:
		return m, tooMuch("its configuration has %d bytes; at most %d are allowed", says.Config.Size, configBytesMax)
	case !says.Config.MediaType.IsConfig():
		return m, fmt.Errorf("it is something else than an image of files (%.100s), and nothing of it can be run", says.Config.MediaType)
	}
	for _, layer := range says.Layers {
		if len(layer.URLs) > 0 || !layer.MediaType.IsDistributable() {
			return m, errors.New("a layer of it is to be had elsewhere than at its registry, where nobody is asked")
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return m, err
	}
	if config.OS != platform.OS || config.Architecture != platform.Architecture {
		return m, fmt.Errorf("it is for %.50s/%.50s, and this agent is %s/%s; build one for that, or have the task run elsewhere",
			config.OS, config.Architecture, platform.OS, platform.Architecture)
	}
	m.Config = config.Config
	for _, id := range config.RootFS.DiffIDs {
		if id.Algorithm != "sha256" || len(id.Hex) != 64 {
			return m, fmt.Errorf("it names a layer by %.100s, and layers are known here by their sha256", id)
		}
		m.Layers = append(m.Layers, id.Hex)
	}
	return m, nil
}

// credentials returns the credentials for a registry from the operator's file.
func (s *Store) credentials(registry name.Registry) (authn.Authenticator, error) {
	if s.config.Credentials == "" {
		return authn.Anonymous, nil
	}
	file, err := s.config.readCredentials()
	if err != nil {
		return nil, err
	}
	key := registry.RegistryStr()
	if key == name.DefaultRegistry {
		key = authn.DefaultAuthKey
	}
	found, err := file.GetAuthConfig(key)
	if err != nil {
		return nil, fmt.Errorf("the credentials for %s are not to be had from the program that %s names for them", key, s.config.Credentials)
	}
	return authn.FromConfig(authn.AuthConfig{
		Username: found.Username, Password: found.Password, Auth: found.Auth, IdentityToken: found.IdentityToken, RegistryToken: found.RegistryToken,
	}), nil
}

// readCredentials reads the operator's file of credentials.
func (c Config) readCredentials() (*configfile.ConfigFile, error) {
	text, err := os.ReadFile(c.Credentials)
	if err != nil {
		return nil, fmt.Errorf("the credentials for registries can't be read: %w", err)
	}
	file, err := config.LoadFromReader(bytes.NewReader(text))
	if err != nil { // the text that is wrong may be part of a secret
		return nil, fmt.Errorf("the credentials for registries in %s can't be read: the file is no configuration of Docker", c.Credentials)
	}
	return file, nil
}

// guard is the transport to a registry. It uses only permitted registries without encryption. Where they redirect the
// agent, the rules are those for servers of files. It also limits every answer but layers in size.
type guard struct {
	plain    bool   // the registry may be asked without encryption
	registry string // its host and port
	loopback bool
	next     http.RoundTripper
}

func (s *Store) newGuard(named name.Reference) *guard {
	registry := named.Context().RegistryStr()
	return &guard{
		plain: s.isPlain(registry), registry: registry, loopback: isLoopback(hostOf(registry)), next: fetch.NewTransport(s.config.Local),
	}
}

// errPlain says why a registry is not used.
var errPlain = errors.New("the registry would be asked without encryption; give it a certificate, or name it to its agents by --insecure-registry")

// RoundTrip sends a request, if that is allowed.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" && !g.plain {
		return nil, errPlain
	}
	if request.URL.Host != g.registry && !g.loopback {
		request = request.WithContext(fetch.SentOn(request.Context()))
	}
	response, err := g.next.RoundTrip(request)
	if err == nil && !strings.Contains(request.URL.Path, "/blobs/") && request.URL.Host == g.registry {
		response.Body = &bounded{Reader: io.LimitReader(response.Body, configBytesMax+1), Closer: response.Body}
	}
	return response, err
}

// bounded is the body of an answer. It ends with an error when it is too long.
type bounded struct {
	io.Reader
	io.Closer
	read int
}

func (b *bounded) Read(into []byte) (int, error) {
	n, err := b.Reader.Read(into)
	if b.read += n; b.read > configBytesMax {
		return n, tooMuch("the registry says more than %d bytes of it", configBytesMax)
	}
	return n, err
}

// explain returns an error that says in a sentence why an image can't be had.
func explain(reference string, err error) error {
	var refused *transport.Error
	var request *url.Error
	switch {
	case errors.As(err, &refused):
		err = explainRefusal(refused)
	case errors.As(err, &request): // its address may hold secrets
		err = request.Err
	}
	return fmt.Errorf("pulling the image %s: %w", reference, err)
}

func explainRefusal(refused *transport.Error) error {
	switch refused.StatusCode {
	case http.StatusNotFound:
		return api.E("", api.NotFound, "", errors.New("its registry has no such image; look at its name and its tag"))
	case http.StatusUnauthorized, http.StatusForbidden:
		return api.E("", api.Denied, "", errors.New("its registry gives it to nobody whom it does not know, or it is not there; "+
			"its agents are told by --registry-credentials who they are"))
	case http.StatusTooManyRequests:
		return api.E("", api.Unavailable, "", errors.New("its registry is asked too often; try later, or tell it who asks"))
	}
	said := ""
	if len(refused.Errors) > 0 {
		said = fmt.Sprintf(": %.200q", refused.Errors[0].Message)
	}
	return api.E("", api.Unavailable, "", fmt.Errorf("its registry answered %d %s%s", refused.StatusCode, http.StatusText(refused.StatusCode), said))
}
