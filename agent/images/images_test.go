package images

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/testing/oci"
)

func opened(t *testing.T, config Config) *Store {
	t.Helper()
	if config.Folder == "" {
		config.Folder = t.TempDir()
	}
	s, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func task(name string) api.TaskRef { return api.TaskRef{Framework: "f", Task: api.TaskID(name)} }

func pull(t *testing.T, s *Store, by, reference string) Image {
	t.Helper()
	image, err := s.Pull(t.Context(), task(by), reference)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func contentOf(t *testing.T, image Image, name string) string {
	t.Helper()
	file, err := image.open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// kept returns the names of the layers on the disk.
func kept(t *testing.T, s *Store) []string {
	t.Helper()
	entries, err := os.ReadDir(s.at("layers"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// An image is pulled by tag and by digest. What is there is not asked for again.
func TestPull(t *testing.T) {
	registry, s := oci.Serve(t), opened(t, Config{})
	base := oci.Layer(t, oci.File{Name: "etc/"}, oci.File{Name: "etc/release", Content: "one"}, oci.File{Name: "only", Content: "base"})
	says := v1.Config{Env: []string{"A=b"}, Entrypoint: []string{"/e"}, Cmd: []string{"c"}, WorkingDir: "/w", User: "u", StopSignal: "SIGQUIT"}
	reference, digest := registry.Push(t, "app:v1", oci.Image(t, says, base, oci.Layer(t, oci.File{Name: "etc/release", Content: "two"})))
	image := pull(t, s, "t1", reference)
	if want := registry.Host + "/app@" + digest; image.Reference != want {
		t.Errorf("it is called %s, not %s", image.Reference, want)
	}
	if contentOf(t, image, "etc/release") != "two" || contentOf(t, image, "only") != "base" {
		t.Error("the layers are not one above the other")
	}
	if !reflect.DeepEqual(image.Config, says) || len(image.Layers) != 2 {
		t.Errorf("%+v", image)
	}
	before := registry.Asked.Load()
	if again := pull(t, s, "t2", image.Reference); !reflect.DeepEqual(again, image) {
		t.Errorf("by its digest it is %+v", again)
	}
	if asked := registry.Asked.Load() - before; asked != 0 {
		t.Errorf("the registry was asked %d times for what is there", asked)
	}
	// The tag now stands for another image, of which one layer is there.
	reference, other := registry.Push(t, "app:v1", oci.Image(t, says, base, oci.Layer(t, oci.File{Name: "etc/release", Content: "three"})))
	if image := pull(t, s, "t3", reference); !strings.HasSuffix(image.Reference, other) || contentOf(t, image, "etc/release") != "three" {
		t.Errorf("the tag is still %s", image.Reference)
	}
	if names := kept(t, s); len(names) != 3 {
		t.Errorf("%v are kept", names)
	}
	if contentOf(t, pull(t, s, "t4", registry.Host+"/app@"+digest), "etc/release") != "two" {
		t.Error("what is pinned has changed")
	}
}

// From a list of images the one for this machine is taken.
func TestPullByPlatform(t *testing.T) {
	registry, s := oci.Serve(t), opened(t, Config{})
	other := oci.ImageFor(t, v1.Platform{OS: "linux", Architecture: "none"}, v1.Config{}, oci.Layer(t, oci.File{Name: "x", Content: "other"}))
	own := oci.Image(t, v1.Config{}, oci.Layer(t, oci.File{Name: "x", Content: "own"}))
	reference, digest := registry.Push(t, "app:all", oci.Index(t, other, own))
	image := pull(t, s, "t", reference)
	if contentOf(t, image, "x") != "own" || !strings.HasSuffix(image.Reference, "@"+digest) {
		t.Errorf("%+v", image)
	}
	for as, what := range map[string]interface {
		Digest() (v1.Hash, error)
	}{"app:list": oci.Index(t, other), "app:one": other} {
		reference, _ := registry.Push(t, as, what.(interface{ RawManifest() ([]byte, error) }).(remoteTaggable))
		_, err := s.Pull(t.Context(), task("x"), reference)
		if err == nil || !strings.Contains(err.Error(), "linux/none") || !strings.Contains(err.Error(), "linux/"+runtime.GOARCH) {
			t.Errorf("%s: %v", as, err)
		}
	}
}

type remoteTaggable interface{ RawManifest() ([]byte, error) }

// An image that can't be had gives an error that says why, and leaves nothing behind.
func TestPullErrors(t *testing.T) {
	registry, s := oci.Serve(t), opened(t, Config{BytesMax: 4 << 20})
	tiny := oci.Layer(t, oci.File{Name: "x", Content: "x"})
	push := func(as string, image v1.Image) string {
		reference, _ := registry.Push(t, as, image)
		return reference
	}
	var many []v1.Layer
	for i := range layersMax + 1 {
		many = append(many, oci.Layer(t, oci.File{Name: fmt.Sprint(i)}))
	}
	foreign, err := mutate.Append(oci.Image(t, v1.Config{}), mutate.Addendum{Layer: tiny, MediaType: types.DockerForeignLayer, URLs: []string{"https://elsewhere.example/layer"}})
	if err != nil {
		t.Fatal(err)
	}
	liar := oci.Image(t, v1.Config{}, tiny)
	file, err := liar.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.RootFS.DiffIDs[0].Hex = strings.Repeat("0", 64)
	if liar, err = mutate.ConfigFile(liar, file); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		reference, want string
		kind            api.Kind
	}{
		{"UPPER:x", "it is no reference to an image", api.Internal},
		{registry.Host + "/nothing:v1", "its registry has no such image", api.NotFound},
		{registry.Host + "/nothing@sha256:" + strings.Repeat("0", 64), "its registry has no such image", api.NotFound},
		{push("large:v1", oci.Image(t, v1.Config{}, oci.Layer(t, oci.File{Name: "x", Content: strings.Repeat("x", 5<<20)}))),
			"take more than the 4 MB that this agent keeps images in", api.Limit},
		{push("many:v1", oci.Image(t, v1.Config{}, many...)), "it has 128 layers; at most 127 are allowed", api.Limit},
		{push("foreign:v1", foreign), "is to be had elsewhere than at its registry", api.Internal},
		{push("liar:v1", liar), "and not sha256:" + strings.Repeat("0", 64) + " as the image says", api.Internal},
		{push("up:v1", oci.Image(t, v1.Config{}, tiny, oci.Layer(t, oci.File{Name: "../x"}))), "\"../x\": the name leads out of the image", api.Internal},
		{push("huge:v1", oci.Image(t, v1.Config{Labels: map[string]string{"x": strings.Repeat("x", configBytesMax)}}, tiny)), "its configuration has", api.Limit},
		{"10.1.2.3:1/app:v1", "", api.Internal},
		{"169.254.169.254/app:v1", "address of the agent's own link", api.Internal},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if c.want == "" { // an empty want means that nobody answers
			cancel()
		}
		_, err := s.Pull(ctx, task("t"), c.reference)
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "pulling the image "+c.reference+": ") || api.KindOf(err) != c.kind {
			t.Errorf("%s: %v (%v)", c.reference, err, api.KindOf(err))
		}
	}
	s.Release(task("t"))
	if _, err := s.GiveUp(); err != nil || len(kept(t, s)) != 0 || s.bytes != 0 || len(s.users) != 0 {
		t.Errorf("%v are left with %d bytes and %d users: %v", kept(t, s), s.bytes, len(s.users), err)
	}
}

// Without encryption only registries of this machine are used, and those that are named.
func TestInsecureRegistries(t *testing.T) {
	s := opened(t, Config{InsecureRegistries: []string{"plain.example", "ported.example:5000"}})
	for registry, plain := range map[string]bool{
		"localhost:5000": true, "127.0.0.1:5000": true, "127.9.9.9": true, "[::1]:5000": true,
		"plain.example": true, "plain.example:99": true, "ported.example:5000": true,
		"ported.example": false, "ported.example:5001": false, "10.0.0.1:5000": false, "my.local:5000": false, "docker.io": false, "localhost.example": false,
	} {
		named, err := s.parse(registry + "/app:v1")
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+registry+"/v2/", nil)
		if err != nil {
			t.Fatal(err)
		}
		g := s.newGuard(named)
		asked := false
		g.next = roundTrip(func(*http.Request) (*http.Response, error) {
			asked = true
			return nil, errors.New("asked")
		})
		response, err := g.RoundTrip(request)
		if err == nil {
			response.Body.Close()
		}
		if asked != plain || !plain && !errors.Is(err, errPlain) {
			t.Errorf("%s: %v", registry, err)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// A name that is not a registry is refused at the start. It would not make any registry insecure.
func TestInsecureRegistriesThatAreNone(t *testing.T) {
	for _, registry := range []string{"http://plain.example", "plain.example/app", "plain example", ""} {
		if _, err := Open(Config{Folder: t.TempDir(), InsecureRegistries: []string{registry}}); err == nil || !strings.Contains(err.Error(), "no HOST or HOST:PORT") {
			t.Errorf("%q: %v", registry, err)
		}
	}
}

// A registry that asks for credentials gets those of the operator's file, and no error shows its content.
func TestCredentials(t *testing.T) {
	registry := oci.Serve(t)
	reference, _ := registry.Push(t, "secret:v1", oci.Image(t, v1.Config{}, oci.Layer(t, oci.File{Name: "x", Content: "x"})))
	registry.Before = func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user == "me" && password == "hush" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	_, err := opened(t, Config{}).Pull(t.Context(), task("t"), reference)
	if api.KindOf(err) != api.Denied || !strings.Contains(err.Error(), "--registry-credentials") {
		t.Errorf("without credentials: %v", err)
	}
	file := filepath.Join(t.TempDir(), "config.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(Config{Folder: t.TempDir(), Credentials: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that is not there: %v", err)
	}
	write("{}")
	s := opened(t, Config{Credentials: file})
	login := base64.StdEncoding.EncodeToString([]byte("me:hush"))
	for _, text := range []string{"{" + login, `{"auths":{"x":{"auth":"` + login + `%"}}}`} {
		write(text)
		_, err := s.Pull(t.Context(), task("t"), reference)
		if err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), login) {
			t.Errorf("%v", err)
		}
	}
	write(`{"auths":{"` + registry.Host + `":{"auth":"` + login + `"}}}`)
	pull(t, s, "t", reference)
}

// A registry that sends more than an image may have is not believed, and it is not waited for beyond the time limit.
func TestARegistryThatSaysTooMuch(t *testing.T) {
	registry, s := oci.Serve(t), opened(t, Config{})
	reference, _ := registry.Push(t, "app:v1", oci.Image(t, v1.Config{}, oci.Layer(t, oci.File{Name: "x", Content: "x"})))
	registry.Before = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/manifests/") {
			return false
		}
		w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
		_, _ = w.Write([]byte(`{"x":"` + strings.Repeat("x", configBytesMax) + `"}`))
		return true
	}
	if _, err := s.Pull(t.Context(), task("t"), reference); !api.Is(err, api.Limit) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	registry.Before = func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		cancel()
		<-r.Context().Done()
		return true
	}
	if _, err := s.Pull(ctx, task("t"), reference); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if len(kept(t, s)) != 0 {
		t.Errorf("%v are left", kept(t, s))
	}
}

// When there is no room the least recently used layers are removed, but none that a task uses.
func TestTheStoreIsBounded(t *testing.T) {
	registry := oci.Serve(t)
	s := opened(t, Config{BytesMax: 4 << 20})
	at := time.Unix(1_000_000, 0)
	s.now = func() time.Time { at = at.Add(time.Second); return at }
	var images []string
	for _, letter := range []string{"a", "b", "c", "d", "e"} {
		reference, _ := registry.Push(t, letter+":v1", oci.Image(t, v1.Config{}, oci.Layer(t, oci.File{Name: letter, Content: strings.Repeat(letter, 1<<20-8<<10)})))
		images = append(images, reference)
	}
	there := func(i int, by string) Image {
		image := pull(t, s, by, images[i])
		if s.bytes > s.config.BytesMax {
			t.Errorf("%d bytes are kept", s.bytes)
		}
		return image
	}
	a := there(0, "a")
	for i, name := range []string{"b", "c", "d"} {
		there(i+1, name)
		s.Release(task(name))
	}
	there(1, "b") // it is used again, and released
	s.Release(task("b"))
	there(4, "e") // c is the oldest that nobody uses
	var left []string
	for _, name := range kept(t, s) {
		entries, err := os.ReadDir(s.at("layers", name, treeName))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, entries[0].Name())
	}
	slices.Sort(left)
	if !slices.Equal(left, []string{"a", "b", "d", "e"}) {
		t.Errorf("%v are kept", left)
	}
	// What would not fit anyway makes nothing be removed.
	bomb, _ := registry.Push(t, "bomb:v1", oci.Image(t, v1.Config{}, oci.LayerOf(t, claim(t, 1<<60))))
	if _, err := s.Pull(t.Context(), task("bomb"), bomb); !api.Is(err, api.Limit) || len(kept(t, s)) != 4 {
		t.Errorf("%v are kept: %v", kept(t, s), err)
	}
	// After a restart the store finds what is there, and is told what tasks use.
	s = opened(t, s.config)
	s.Hold(task("a"), a.Layers)
	if len(s.layers) != 4 || s.bytes == 0 {
		t.Errorf("%d layers were found, with %d bytes", len(s.layers), s.bytes)
	}
	if freed, err := s.GiveUp(); err != nil || freed == 0 {
		t.Fatalf("%d bytes were given up: %v", freed, err)
	}
	if names := kept(t, s); len(names) != 1 || contentOf(t, a, "a") == "" {
		t.Errorf("%v are kept", names)
	}
	s.Release(task("a"))
	if _, err := s.GiveUp(); err != nil || len(kept(t, s)) != 0 || s.bytes != 0 {
		t.Errorf("%v are kept, with %d bytes: %v", kept(t, s), s.bytes, err)
	}
}

// What an agent has left unfinished is removed at its next start. So is what is not a layer.
func TestWhatIsHalfDoneGoes(t *testing.T) {
	folder := t.TempDir()
	whole := strings.Repeat("ab", 32)
	for _, name := range []string{newPrefix + "123", oldPrefix + "456", strings.Repeat("cd", 32), whole, "other"} {
		if err := os.MkdirAll(filepath.Join(folder, "layers", name, treeName), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "layers", whole, bytesName), []byte("4096\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := opened(t, Config{Folder: folder})
	if names := kept(t, s); !slices.Equal(names, []string{whole}) || s.bytes != 4096 {
		t.Errorf("%v are kept, with %d bytes", names, s.bytes)
	}
}

// When many want the same image at once, each layer is unpacked once.
func TestManyPullOnce(t *testing.T) {
	registry, s := oci.Serve(t), opened(t, Config{})
	reference, _ := registry.Push(t, "app:v1", oci.Image(t, v1.Config{}, oci.Layer(t, oci.File{Name: "x", Content: strings.Repeat("x", 1<<20)})))
	var mutex sync.Mutex
	blobs := map[string]int{}
	registry.Before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			mutex.Lock()
			defer mutex.Unlock()
			blobs[r.URL.Path]++
		}
		return false
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if _, err := s.Pull(t.Context(), task(fmt.Sprint(i)), reference); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	once := 0
	for _, times := range blobs {
		if times == 1 {
			once++
		}
	}
	if once == 0 || len(kept(t, s)) != 1 {
		t.Errorf("%v were asked for, %v are kept", blobs, kept(t, s))
	}
	for i := range 8 {
		s.Release(task(fmt.Sprint(i)))
	}
	for _, l := range s.layers {
		if l.users != 0 {
			t.Errorf("%d users are left", l.users)
		}
	}
}

// The user of an image is found in its own lists of users and groups.
func TestUserNamed(t *testing.T) {
	registry, s := oci.Serve(t), opened(t, Config{})
	lists := []oci.File{
		{Name: "etc/"}, {Name: "etc/passwd", Content: "root:x:0:0:root:/root:/bin/sh\nweb:x:101:102:Web:/var/www:/bin/false\nbroken\nodd:x:y:z::/:\n"},
		{Name: "etc/group", Content: "root:x:0:\nweb:x:102:\nlogs:x:103:root,web\nmore:x:104:web\n"},
	}
	reference, _ := registry.Push(t, "app:v1", oci.Image(t, v1.Config{}, oci.Layer(t, lists...), oci.Layer(t, oci.File{Name: "x"})))
	image := pull(t, s, "t", reference)
	for says, want := range map[string]struct {
		user entry.User
		home string
	}{
		"":         {entry.User{UID: 0, GID: 0, Groups: []int{103}}, "/root"},
		"root":     {entry.User{UID: 0, GID: 0, Groups: []int{103}}, "/root"},
		"web":      {entry.User{UID: 101, GID: 102, Groups: []int{103, 104}}, "/var/www"},
		"101":      {entry.User{UID: 101, GID: 102, Groups: []int{103, 104}}, "/var/www"},
		"web:logs": {entry.User{UID: 101, GID: 103}, "/var/www"},
		"web:7":    {entry.User{UID: 101, GID: 7}, "/var/www"},
		"1234":     {entry.User{UID: 1234}, ""},
		"1234:5":   {entry.User{UID: 1234, GID: 5}, ""},
	} {
		user, home, err := image.UserNamed(says)
		if err != nil || !reflect.DeepEqual(user, want.user) || home != want.home {
			t.Errorf("%q: %+v, %q, %v", says, user, home, err)
		}
	}
	for _, says := range []string{"nobody", "web:nobody", "odd", "-1", fmt.Sprint(int64(math.MaxUint32))} {
		if user, _, err := image.UserNamed(says); err == nil {
			t.Errorf("%q is %+v", says, user)
		}
	}
	if image.HomeOf(101) != "/var/www" || image.HomeOf(9) != "" {
		t.Errorf("%q, %q", image.HomeOf(101), image.HomeOf(9))
	}
}

// A list of users that is a link, or that a layer has removed, counts as missing.
func TestListsThatAreNotThere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes folders that hide others")
	}
	registry, s := oci.Serve(t), opened(t, Config{})
	base := oci.Layer(t, oci.File{Name: "etc/"}, oci.File{Name: "etc/passwd", Content: "web:x:101:102::/:\n"})
	for name, above := range map[string]oci.File{
		"link":   {Name: "etc/passwd", Type: '2', Link: "/etc/passwd"},
		"gone":   {Name: "etc/.wh.passwd"},
		"opaque": {Name: "etc/.wh..wh..opq"},
		"etc":    {Name: ".wh.etc"},
	} {
		reference, _ := registry.Push(t, name+":v1", oci.Image(t, v1.Config{}, base, oci.Layer(t, above)))
		if user, _, err := pull(t, s, name, reference).UserNamed("web"); err == nil {
			t.Errorf("%s: web is %+v", name, user)
		}
	}
}

func TestStopSignal(t *testing.T) {
	for says, want := range map[string]int{"": 0, "SIGQUIT": 3, "quit": 3, "9": 9, "SIGRTMIN": 34, "SIGRTMIN+3": 37} {
		if got, err := (Image{Config: v1.Config{StopSignal: says}}).StopSignal(); err != nil || got != want {
			t.Errorf("%q: %d, %v", says, got, err)
		}
	}
	for _, says := range []string{"SIGNOTHING", "0", "65", "-1", "SIGRTMIN+99", "SIGRTMIN-1"} {
		if got, err := (Image{Config: v1.Config{StopSignal: says}}).StopSignal(); err == nil {
			t.Errorf("%q: %d", says, got)
		}
	}
}
