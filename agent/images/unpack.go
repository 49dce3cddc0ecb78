package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

const (
	// layerEntriesMax bounds the entries of one layer.
	layerEntriesMax = 1_000_000
	// layerWhiteoutsMax bounds how many files of the layers below one layer may remove.
	layerWhiteoutsMax = 100_000
	// entryNameBytesMax bounds the path of a file.
	entryNameBytesMax = 4096
	// entryDepthMax bounds how deep a file may lie, because the path to it is walked for each file.
	entryDepthMax = 256
	// blockBytes is the least that a file counts, so that files without content are bounded too.
	blockBytes = 4096
)

// whiteout is how a layer says which files of the layers below it removes: .wh.NAME removes one name, and opaque
// everything that a folder has there. Other names that begin like whiteoutOther are from tools that nobody uses any
// more.
const (
	whiteout      = ".wh."
	opaque        = ".wh..wh..opq"
	whiteoutOther = ".wh..wh."
)

// unpacker unpacks a layer into an empty folder, in the form that overlayfs needs. Whatever the layer contains, nothing
// is written outside of that folder. Devices, pipes, extended attributes and the set-user-ID bits are left out.
type unpacker struct {
	ctx  context.Context //nolint:containedctx // of one call
	root *os.Root
	// makeRoom makes room for so many more bytes.
	makeRoom func(bytes int64) error
	// owners says that files get the owners that the layer names, which only root can do.
	owners  bool
	entries int
	gone    []string // whiteouts, which are made after everything else
	opaque  []string // opaque folders
}

// unpack reads the layer to its end.
func (u *unpacker) unpack(layer io.Reader) error {
	archive := tar.NewReader(layer)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = u.ctx.Err()
		}
		if err != nil {
			return err
		}
		if err := u.entry(header, archive); err != nil {
			return fmt.Errorf("%.200q: %w", header.Name, err)
		}
	}
	if _, err := io.Copy(io.Discard, layer); err != nil { // the checksum also covers what follows the archive
		return err
	}
	return u.hideBelow()
}

func (u *unpacker) entry(header *tar.Header, content io.Reader) error {
	if u.entries++; u.entries > layerEntriesMax {
		return tooMuch("its layer has more than %d files; at most so many are unpacked", layerEntriesMax)
	}
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := cleanName(header.Name)
	if err != nil {
		return err
	}
	if base := path.Base(name); strings.HasPrefix(base, whiteout) {
		return u.noteWhiteout(path.Dir(name), base)
	}
	if err := u.makeRoom(blocksOf(header.Size)); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return u.folder(name, header)
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(name, header, content)
	case tar.TypeSymlink:
		return u.symlink(name, header)
	case tar.TypeLink:
		return u.link(name, header.Linkname)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return nil // a task has the devices of its agent, and none of its image
	}
	return fmt.Errorf("an entry of type %q has no place in an image", header.Typeflag)
}

// blocksOf returns what a file takes of the disk.
func blocksOf(size int64) int64 {
	if size < 0 || size > math.MaxInt64-blockBytes {
		return math.MaxInt64
	}
	return max((size+blockBytes-1)/blockBytes, 1) * blockBytes
}

// cleanName returns a name as a path from the image's root; "." is the root itself. An absolute name means the same as
// a relative one. A name that goes up is refused, wherever it would end.
func cleanName(name string) (string, error) {
	switch {
	case len(name) > entryNameBytesMax:
		return "", fmt.Errorf("the name has %d bytes; at most %d are allowed", len(name), entryNameBytesMax)
	case strings.ContainsRune(name, 0):
		return "", errors.New("the name holds a zero byte")
	case strings.Count(name, "/") > entryDepthMax:
		return "", tooMuch("it lies in more than %d folders", entryDepthMax)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errors.New("the name leads out of the image")
		}
	}
	if clean := path.Clean("/" + name)[1:]; clean != "" {
		return clean, nil
	}
	return ".", nil
}

// noteWhiteout notes what is to be hidden of the layers below.
func (u *unpacker) noteWhiteout(folder, base string) error {
	if len(u.gone)+len(u.opaque) >= layerWhiteoutsMax {
		return tooMuch("its layer takes away more than %d files of those below; at most so many are allowed", layerWhiteoutsMax)
	}
	switch name := strings.TrimPrefix(base, whiteout); {
	case base == opaque:
		u.opaque = append(u.opaque, folder)
	case strings.HasPrefix(base, whiteoutOther):
	case name == "" || name == "." || name == "..":
		return errors.New("it takes away what has no name")
	default:
		u.gone = append(u.gone, path.Join(folder, name))
	}
	return nil
}

// hideBelow makes the whiteouts. What this layer has itself stays: of a folder it hides only what the layers below
// have.
func (u *unpacker) hideBelow() error {
	for _, name := range u.gone {
		info, err := u.root.Lstat(name)
		switch {
		case err == nil && info.IsDir():
			u.opaque = append(u.opaque, name)
			continue
		case err == nil:
			continue
		}
		folder, err := u.openFolder(path.Dir(name))
		if err == nil {
			err = errors.Join(markGone(folder, path.Base(name)), folder.Close())
		}
		if err != nil {
			return fmt.Errorf("%.200q can't be taken away: %w", name, err)
		}
	}
	for _, name := range u.opaque {
		folder, err := u.openFolder(name)
		if err == nil {
			err = errors.Join(markOpaque(folder), folder.Close())
		}
		if err != nil {
			return fmt.Errorf("what the layers below have in %.200q can't be taken away: %w", name, err)
		}
	}
	return nil
}

// openFolder opens a folder of the layer, and makes it if it does not exist.
func (u *unpacker) openFolder(name string) (*os.File, error) {
	if err := u.parents(name); err != nil {
		return nil, err
	}
	return u.root.Open(name)
}

// parents makes a folder and all folders on the way to it.
func (u *unpacker) parents(name string) error {
	if name == "." {
		return nil
	}
	if info, err := u.root.Stat(name); err == nil && info.IsDir() {
		return nil
	}
	if err := u.parents(path.Dir(name)); err != nil {
		return err
	}
	if err := u.makeRoom(blockBytes); err != nil {
		return err
	}
	if err := u.root.Mkdir(name, 0o755); err != nil {
		return err
	}
	return u.root.Chmod(name, 0o755) // regardless of the umask
}

// place clears the path for an entry that is not a folder. What the layer itself has put there before is removed.
func (u *unpacker) place(name string) error {
	if name == "." {
		return errors.New("it would replace the root of the image")
	}
	if err := u.parents(path.Dir(name)); err != nil {
		return err
	}
	if _, err := u.root.Lstat(name); err == nil {
		return u.root.RemoveAll(name)
	}
	return nil
}

func (u *unpacker) folder(name string, header *tar.Header) error {
	if info, err := u.root.Lstat(name); err == nil && !info.IsDir() {
		if err := u.root.Remove(name); err != nil {
			return err
		}
	}
	if err := u.parents(name); err != nil {
		return err
	}
	if err := u.own(name, header); err != nil {
		return err
	}
	return u.root.Chmod(name, modeOf(header))
}

// modeOf returns a mode without the bits that give a task rights when it runs a file.
func modeOf(header *tar.Header) fs.FileMode {
	mode := header.FileInfo().Mode()
	return mode.Perm() | mode&fs.ModeSticky
}

// own gives a file to the owner that the layer names.
func (u *unpacker) own(name string, header *tar.Header) error {
	if header.Uid < 0 || header.Gid < 0 || header.Uid >= math.MaxUint32 || header.Gid >= math.MaxUint32 {
		return fmt.Errorf("it belongs to user %d and group %d, which are none", header.Uid, header.Gid)
	}
	if !u.owners {
		return nil
	}
	return u.root.Lchown(name, header.Uid, header.Gid)
}

func (u *unpacker) file(name string, header *tar.Header, content io.Reader) error {
	if err := u.place(name); err != nil {
		return err
	}
	file, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content) // the archive gives as much as its header says, and room was made for that
	if err == nil {
		err = u.own(name, header)
	}
	if err == nil {
		err = file.Chmod(modeOf(header))
	}
	if err = errors.Join(err, file.Close()); err != nil || header.ModTime.Before(time.Unix(0, 0)) {
		return err
	}
	_ = u.root.Chtimes(name, header.ModTime, header.ModTime) // a time that the disk can't keep is not needed
	return nil
}

// symlink makes a link with any target, because it is only followed in the task's own root.
func (u *unpacker) symlink(name string, header *tar.Header) error {
	if len(header.Linkname) > entryNameBytesMax {
		return fmt.Errorf("the link has %d bytes; at most %d are allowed", len(header.Linkname), entryNameBytesMax)
	}
	if err := u.place(name); err != nil {
		return err
	}
	if err := u.root.Symlink(header.Linkname, name); err != nil {
		return err
	}
	return u.own(name, header)
}

// link gives a file of the layer a further name.
func (u *unpacker) link(name, asked string) error {
	target, err := cleanName(asked)
	if err != nil {
		return fmt.Errorf("the link to %.200q: %w", asked, err)
	}
	info, err := u.root.Lstat(target)
	switch {
	case err != nil:
		return fmt.Errorf("the file %.200q, whose other name it is, is not in its layer: %w", target, err)
	case info.IsDir():
		return fmt.Errorf("it is another name of the folder %.200q, which may have one only", target)
	case name == target:
		return nil
	}
	if err := u.place(name); err != nil {
		return err
	}
	return u.root.Link(target, name)
}

// tooMuch returns the error of something that exceeds a limit.
func tooMuch(format string, values ...any) error {
	return api.E("image.pull", api.Limit, "", fmt.Errorf(format, values...))
}
