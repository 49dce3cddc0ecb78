package fetch

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// extract unpacks an archive of the sandbox into the sandbox. Its first bytes show its type: gzip (of a tar) or zip,
// otherwise tar.
func (f Fetcher) extract(ctx context.Context, root *os.Root, name string) error {
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	u := &unpacker{fetcher: f, ctx: ctx, root: root, left: f.BytesMax}
	var magic [4]byte
	n, err := io.ReadFull(file, magic[:])
	if err != nil {
		return fmt.Errorf("not an archive: %d bytes", n)
	}
	if bytes.Equal(magic[:], []byte("PK\x03\x04")) || bytes.Equal(magic[:], []byte("PK\x05\x06")) {
		return u.zip(file)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	reader := io.Reader(bufio.NewReaderSize(file, 64<<10))
	if magic[0] == 0x1f && magic[1] == 0x8b {
		if reader, err = gzip.NewReader(reader); err != nil {
			return err
		}
	}
	return u.tar(tar.NewReader(reader))
}

// unpacker limits what an archive makes, so that a small one can't fill the disk.
type unpacker struct {
	fetcher Fetcher
	ctx     context.Context
	root    *os.Root
	left    int64
	entries int
}

func (u *unpacker) tar(archive *tar.Reader) error {
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
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
	for _, entry := range archive.File {
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
	if strings.Contains(name, "\\") || strings.ContainsRune(name, 0) || !filepath.IsLocal(name) {
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
