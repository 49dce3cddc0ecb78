package fetch

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// kinds names the archives that can be unpacked.
const kinds = "what can be unpacked is .zip, .tar, .tar.gz and .tar.bz2"

// unsupported are the beginnings of files that people may take for archives that can be unpacked.
var unsupported = []struct{ magic, name string }{
	{"\xfd7zXZ\x00", "xz"}, {"\x28\xb5\x2f\xfd", "zstd"}, {"7z\xbc\xaf\x27\x1c", "7z"}, {"Rar!\x1a\x07", "rar"},
	{"\x04\x22\x4d\x18", "lz4"}, {"LZIP", "lzip"}, {"\x1f\x9d", "compress (.Z)"},
}

// extract unpacks an archive of the sandbox into the sandbox. Its first bytes show its type: gzip or bzip2 (of a tar) or
// zip, otherwise tar.
func (f Fetcher) extract(ctx context.Context, root *os.Root, name string) error {
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	u := &unpacker{fetcher: f, ctx: ctx, root: root, left: f.BytesMax}
	buffered := bufio.NewReaderSize(file, 64<<10)
	magic, _ := buffered.Peek(6) // a shorter file is no archive, which the tar below says
	begins := func(with string) bool { return bytes.HasPrefix(magic, []byte(with)) }
	for _, other := range unsupported {
		if begins(other.magic) {
			return fmt.Errorf("it is compressed with %s; %s", other.name, kinds)
		}
	}
	reader := io.Reader(buffered)
	switch {
	case begins("PK\x03\x04") || begins("PK\x05\x06"):
		return u.zip(file)
	case begins("\x1f\x8b"):
		if reader, err = gzip.NewReader(reader); err != nil {
			return err
		}
	case begins("BZh"):
		reader = bzip2.NewReader(reader)
	}
	return u.tar(reader)
}

const tarBlock = 512

// unpacker limits what an archive makes, so that a small one can't fill the disk.
type unpacker struct {
	fetcher Fetcher
	ctx     context.Context
	root    *os.Root
	left    int64
	entries int
}

func (u *unpacker) tar(content io.Reader) error {
	// tar fills its last block, so what is shorter than one, such as a file that is only compressed, is no tar.
	block := bufio.NewReaderSize(content, 64<<10)
	if begin, err := block.Peek(tarBlock); errors.Is(err, io.EOF) {
		return fmt.Errorf("it is no archive, but holds %d bytes; %s", len(begin), kinds)
	} else if err != nil {
		return err
	}
	archive := tar.NewReader(block)
	for first := true; ; first = false {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, tar.ErrHeader) && first:
			return fmt.Errorf("it is no archive; %s", kinds)
		case err != nil:
			return err
		}
		if err := u.tarEntry(header, archive); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

func (u *unpacker) tarEntry(header *tar.Header, content io.Reader) error {
	mode := header.FileInfo().Mode()
	switch header.Typeflag {
	case tar.TypeDir:
		return u.folder(header.Name)
	case tar.TypeReg:
		return u.file(header.Name, content, mode)
	case tar.TypeSymlink:
		return u.symlink(header.Name, header.Linkname)
	case tar.TypeLink:
		return u.link(header.Name, header.Linkname)
	case tar.TypeXGlobalHeader:
		return nil
	}
	return fmt.Errorf("an entry of type %q has no place in a sandbox", header.Typeflag)
}

func (u *unpacker) zip(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	archive, err := zip.NewReader(file, info.Size())
	if err != nil {
		return err
	}
	// By the format names have slashes. Some programs for Windows write backslashes, in all names.
	fromWindows := !slices.ContainsFunc(archive.File, func(entry *zip.File) bool { return strings.Contains(entry.Name, "/") })
	for _, entry := range archive.File {
		if fromWindows {
			entry.Name = strings.ReplaceAll(entry.Name, "\\", "/")
		}
		if err := u.zipEntry(entry); err != nil {
			return fmt.Errorf("%s: %w", entry.Name, err)
		}
	}
	return nil
}

func (u *unpacker) zipEntry(entry *zip.File) error {
	mode := entry.Mode()
	if mode.IsDir() || strings.HasSuffix(entry.Name, "/") {
		return u.folder(entry.Name)
	}
	content, err := entry.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	switch {
	case mode.IsRegular():
		return u.file(entry.Name, content, mode)
	case mode&os.ModeSymlink != 0:
		target, err := io.ReadAll(io.LimitReader(content, 4096))
		if err != nil {
			return err
		}
		return u.symlink(entry.Name, string(target))
	}
	return fmt.Errorf("an entry of mode %v has no place in a sandbox", mode)
}

// local cleans an entry's name, and refuses one that leads out of the sandbox.
func (u *unpacker) local(name string) (string, error) {
	if err := u.ctx.Err(); err != nil {
		return "", err
	}
	if u.entries++; u.entries > u.fetcher.EntriesMax {
		return "", fmt.Errorf("more than %d entries", u.fetcher.EntriesMax)
	}
	name = strings.TrimSuffix(name, "/")
	switch {
	case strings.Contains(name, "\\"):
		return "", errors.New("the name has a backslash, which some programs take for the end of a folder's name; write slashes")
	case strings.ContainsRune(name, 0) || !filepath.IsLocal(name):
		return "", errors.New("the name leads out of the sandbox")
	}
	return filepath.Clean(name), nil
}

func (u *unpacker) folder(name string) error {
	name, err := u.local(name)
	if err != nil || name == "." {
		return err
	}
	return u.root.MkdirAll(name, 0o755)
}

// place clears the path for an entry. The root keeps links from leading elsewhere.
func (u *unpacker) place(name string) (string, error) {
	name, err := u.local(name)
	if err != nil {
		return "", err
	}
	if name == "." {
		return "", errors.New("the entry would replace the sandbox")
	}
	if err := u.root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return "", err
	}
	if info, err := u.root.Lstat(name); err == nil && !info.IsDir() {
		return name, u.root.Remove(name)
	}
	return name, nil
}

func (u *unpacker) file(name string, content io.Reader, mode os.FileMode) error {
	name, err := u.place(name)
	if err != nil {
		return err
	}
	counted := &counter{content, 0}
	err = u.fetcher.write(u.root, name, counted, mode.Perm()|0o600, u.left)
	u.left -= counted.n
	return err
}

type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// symlink makes a link whose target is relative and stays inside the sandbox.
func (u *unpacker) symlink(name, target string) error {
	name, err := u.place(name)
	if err != nil {
		return err
	}
	if filepath.IsAbs(target) || !filepath.IsLocal(filepath.Join(filepath.Dir(name), target)) {
		return fmt.Errorf("the link to %q leads out of the sandbox", target)
	}
	return u.root.Symlink(target, name)
}

func (u *unpacker) link(name, target string) error {
	name, err := u.place(name)
	if err != nil {
		return err
	}
	if target, err = u.local(target); err != nil {
		return err
	}
	return u.root.Link(target, name)
}
