package images

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/tenderhq/tender/agent/walls/entry"
)

// copyImage copies the layers of an image into one folder, with the result that overlayfs would show. It is for kernels
// that can't mount the layers.
func copyImage(ctx context.Context, layers []string, at *os.Root, name string) error {
	to, err := at.OpenRoot(name)
	if err != nil {
		return err
	}
	defer to.Close()
	for _, layer := range layers {
		if err := copyLayer(ctx, layer, to); err != nil {
			return err
		}
	}
	return nil
}

func copyLayer(ctx context.Context, layer string, to *os.Root) error {
	from, err := os.OpenRoot(layer)
	if err != nil {
		return err
	}
	defer from.Close()
	c := copier{ctx: ctx, from: from, to: to, names: map[uint64]string{}}
	return c.folder(".")
}

// copier copies one layer over those before it. It reads what this package has unpacked, which nobody changes.
type copier struct {
	ctx      context.Context //nolint:containedctx // of one call
	from, to *os.Root
	names    map[uint64]string // files with several names: the first name by inode
}

func (c copier) folder(name string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	folder, err := c.from.Open(name)
	if err != nil {
		return err
	}
	defer folder.Close()
	info, err := folder.Stat()
	if err != nil {
		return err
	}
	if err := c.makeFolder(name, info, isOpaque(folder)); err != nil {
		return err
	}
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, below := range names {
		if err := c.entry(path.Join(name, below)); err != nil {
			return err
		}
	}
	return nil
}

// makeFolder makes a folder as the layer has it. An existing folder keeps its content, unless the layer hides that.
func (c copier) makeFolder(name string, info fs.FileInfo, hides bool) error {
	if there, err := c.to.Lstat(name); name != "." && err == nil && (hides || !there.IsDir()) {
		if err := c.to.RemoveAll(name); err != nil {
			return err
		}
	}
	if err := c.to.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := c.own(name, info); err != nil {
		return err
	}
	return c.to.Chmod(name, info.Mode().Perm()|info.Mode()&fs.ModeSticky)
}

func (c copier) own(name string, info fs.FileInfo) error {
	owner := entry.OwnerOf(info)
	return c.to.Lchown(name, owner.UID, owner.GID)
}

func (c copier) entry(name string) error {
	info, err := c.from.Lstat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return c.folder(name)
	}
	if err := c.to.RemoveAll(name); err != nil {
		return err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := c.from.Readlink(name)
		if err == nil {
			err = c.to.Symlink(target, name)
		}
		return errors.Join(err, c.own(name, info))
	case info.Mode().IsRegular():
		return c.file(name, info)
	}
	return nil // it only hides what was there
}

func (c copier) file(name string, info fs.FileInfo) error {
	if stat, is := info.Sys().(*syscall.Stat_t); is && stat.Nlink > 1 {
		if first, known := c.names[stat.Ino]; known {
			return c.to.Link(first, name)
		}
		c.names[stat.Ino] = name
	}
	source, err := c.from.Open(name)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := c.to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if err == nil {
		err = c.own(name, info)
	}
	if err == nil {
		err = target.Chmod(info.Mode().Perm())
	}
	if err = errors.Join(err, target.Close()); err != nil {
		return err
	}
	return c.to.Chtimes(name, info.ModTime(), info.ModTime())
}
