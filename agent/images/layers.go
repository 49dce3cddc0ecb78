package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenderhq/tender/api"
)

// A layer is the folder layers/HEX. tree holds its files. bytes holds their size; its time is that of the last use.
const (
	treeName  = "tree"
	bytesName = "bytes"
	newPrefix = "new-"     // a layer that is being unpacked
	oldPrefix = "removed-" // a layer that is being deleted
)

// layer is a layer that is there or being unpacked.
type layer struct {
	hex   string
	bytes int64
	used  time.Time
	users int // how many tasks use it
	whole bool
}

// find finds the layers that are there.
func (s *Store) find() error {
	entries, err := os.ReadDir(s.at("layers"))
	if err != nil {
		return err
	}
	var failed error
	for _, entry := range entries {
		l, err := s.read(entry.Name())
		if err != nil { // it was left half unpacked or half deleted
			failed = errors.Join(failed, s.remove(s.at("layers", entry.Name())))
			continue
		}
		s.layers[l.hex] = l
		s.bytes += l.bytes
	}
	return failed
}

func (s *Store) read(name string) (*layer, error) {
	if sum, err := hex.DecodeString(name); err != nil || len(sum) != sha256.Size {
		return nil, fmt.Errorf("%s is no layer", name)
	}
	path := s.at("layers", name, bytesName)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	bytes, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || bytes < 0 {
		return nil, fmt.Errorf("%s: %.100q is no size", path, text)
	}
	return &layer{hex: name, bytes: bytes, used: info.ModTime(), whole: true}, nil
}

// hold notes that a task uses the layers, if all of them are there.
func (s *Store) hold(task api.TaskRef, layers []string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, name := range layers {
		if l := s.layers[name]; l == nil || !l.whole {
			return false
		}
	}
	for _, name := range layers {
		s.use(task, s.layers[name])
	}
	return true
}

// use notes that a task uses a layer. Callers hold mutex.
func (s *Store) use(task api.TaskRef, l *layer) {
	if slices.Contains(s.users[task], l) {
		return
	}
	s.users[task] = append(s.users[task], l)
	l.users++
	l.used = s.now()
	_ = os.Chtimes(s.at("layers", l.hex, bytesName), l.used, l.used) // else it goes a little sooner than it should
}

// Hold notes that a task uses the layers in these folders. It is for tasks that were found when the agent was
// restarted.
func (s *Store) Hold(task api.TaskRef, folders []string) {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, folder := range folders {
		if l := s.layers[filepath.Base(filepath.Dir(folder))]; l != nil {
			s.use(task, l)
		}
	}
}

// Release notes that a task uses no image any more. The layers stay as long as there is room.
func (s *Store) Release(task api.TaskRef) {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, l := range s.users[task] {
		l.users--
		l.used = s.now()
	}
	delete(s.users, task)
}

// ReleaseAll does that for all tasks.
func (s *Store) ReleaseAll() {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, l := range s.layers { // order: irrelevant because each is let go
		l.users = 0
	}
	clear(s.users)
}

// GiveUp removes all layers that no task uses, because the disk is full or an operator wants it. It returns how many bytes
// they had.
func (s *Store) GiveUp() (bytes int64, err error) {
	if s == nil {
		return 0, nil
	}
	s.mutex.Lock()
	had := s.bytes
	var gone []string
	var failed error
	for {
		path, more, err := s.evict()
		if failed = errors.Join(failed, err); !more || err != nil {
			break
		}
		gone = append(gone, path)
	}
	had -= s.bytes
	s.mutex.Unlock()
	return had, errors.Join(failed, s.removeAll(gone))
}

// evict removes the least recently used layer that no task uses from the store, and returns the folder to delete. more
// is false if there is none. Callers hold mutex.
func (s *Store) evict() (path string, more bool, err error) {
	var oldest *layer
	for _, l := range s.layers { // order: irrelevant because the oldest is looked for, and of two alike it may be either
		if l.whole && l.users == 0 && (oldest == nil || l.used.Before(oldest.used)) {
			oldest = l
		}
	}
	if oldest == nil {
		return "", false, nil
	}
	path = s.at("layers", oldPrefix+oldest.hex)
	if err := os.Rename(s.at("layers", oldest.hex), path); err != nil {
		return "", true, err
	}
	delete(s.layers, oldest.hex)
	s.bytes -= oldest.bytes
	return path, true, nil
}

func (s *Store) removeAll(folders []string) (err error) {
	for _, folder := range folders {
		err = errors.Join(err, s.remove(folder))
	}
	return err
}

// makeRoom makes room for more bytes of a layer. It removes unused layers for that, unless that would not be enough.
func (s *Store) makeRoom(l *layer, bytes int64) error {
	s.mutex.Lock()
	var gone []string
	err := s.judge(bytes)
	for err == nil && bytes > s.config.BytesMax-s.bytes {
		path, more, failed := s.evict()
		if err = failed; err != nil || !more {
			break
		}
		gone = append(gone, path)
	}
	if err == nil {
		s.bytes += bytes
		l.bytes += bytes
	}
	s.mutex.Unlock()
	return errors.Join(err, s.removeAll(gone))
}

// judge returns an error if so many more bytes have no room beside what tasks use. Callers hold mutex.
func (s *Store) judge(bytes int64) error {
	room := s.config.BytesMax - s.bytes
	if bytes <= room {
		return nil
	}
	for _, l := range s.layers { // order: irrelevant because a sum is made
		if l.whole && l.users == 0 {
			room += l.bytes
		}
	}
	if bytes <= room {
		return nil
	}
	return tooMuch("it is too large: the images that tasks use now and this one take more than the %s that this agent keeps images in; "+
		"start the agent with a larger --image-cache", megabytes(s.config.BytesMax))
}

// megabytes writes a number of bytes in the unit in which resources are asked for.
func megabytes(bytes int64) string {
	return api.Milli(min(bytes, math.MaxInt64/1000)*1000>>20).String() + " MB"
}

// bringLayer makes sure that one layer is there. If several callers want the same layer, one unpacks it and the others
// wait.
func (s *Store) bringLayer(ctx context.Context, task api.TaskRef, name string, source v1.Layer) error {
	for {
		if s.hold(task, []string{name}) {
			return nil
		}
		l, wait := s.begin(name)
		if wait == nil {
			return s.unpackLayer(ctx, task, l, source)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin lets one caller unpack a layer. The other callers get a channel to wait for.
func (s *Store) begin(name string) (l *layer, wait chan struct{}) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if wait = s.work[name]; wait != nil {
		return nil, wait
	}
	if s.layers[name] != nil { // it was unpacked meanwhile
		wait = make(chan struct{})
		close(wait)
		return nil, wait
	}
	s.work[name] = make(chan struct{})
	return &layer{hex: name}, nil
}

// end notes that a layer is there. If there was an error, those who wait for it try again.
func (s *Store) end(task api.TaskRef, l *layer, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	close(s.work[l.hex])
	delete(s.work, l.hex)
	if err != nil {
		s.bytes -= l.bytes
		return
	}
	l.whole = true
	s.layers[l.hex] = l
	s.use(task, l)
}

func (s *Store) unpackLayer(ctx context.Context, task api.TaskRef, l *layer, source v1.Layer) (err error) {
	defer func() { s.end(task, l, err) }()
	folder, err := os.MkdirTemp(s.at("layers"), newPrefix)
	if err != nil {
		return err
	}
	err = s.fill(ctx, folder, l, source)
	if err == nil {
		err = os.Rename(folder, s.at("layers", l.hex))
	}
	if err != nil {
		return errors.Join(err, s.remove(folder))
	}
	return nil
}

// fill unpacks a layer into its new folder and checks it.
func (s *Store) fill(ctx context.Context, folder string, l *layer, source v1.Layer) error {
	tree := filepath.Join(folder, treeName)
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(tree, 0o755); err != nil { // regardless of the umask
		return err
	}
	root, err := os.OpenRoot(tree)
	if err != nil {
		return err
	}
	defer root.Close()
	content, err := source.Uncompressed()
	if err != nil {
		return err
	}
	sum := sha256.New()
	u := &unpacker{
		ctx: ctx, root: root, owners: os.Geteuid() == 0, makeRoom: func(bytes int64) error { return s.makeRoom(l, bytes) },
	}
	if err := errors.Join(u.unpack(io.TeeReader(content, sum)), content.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != l.hex {
		return fmt.Errorf("a layer is sha256:%s, and not sha256:%s as the image says", got, l.hex)
	}
	return s.seal(folder, l)
}

// seal writes down the size of a layer, after everything else, and makes sure that all of it is on disk.
func (s *Store) seal(folder string, l *layer) error {
	if err := os.WriteFile(filepath.Join(folder, bytesName), []byte(strconv.FormatInt(l.bytes, 10)+"\n"), 0o600); err != nil {
		return err
	}
	opened, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(settleDisk(opened), opened.Close())
}
