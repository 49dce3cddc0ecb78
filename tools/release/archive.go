package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// archive writes the archive of a platform: the program and what is for its operators, below one folder.
func (r release) archive(program, name string) error {
	files, err := deployed()
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(r.out, name+".tar.gz"))
	if err != nil {
		return err
	}
	zipped := gzip.NewWriter(out)
	to := tar.NewWriter(zipped)
	err = r.put(to, program, name+"/tender", 0o755)
	for _, file := range files {
		mode := int64(0o644)
		if strings.HasSuffix(file, ".sh") {
			mode = 0o755
		}
		if err == nil {
			err = r.put(to, file, name+"/"+file, mode)
		}
	}
	return errors.Join(err, to.Close(), zipped.Close(), out.Close())
}

// put adds a file. Nothing of it depends on the machine or on who builds.
func (r release) put(to *tar.Writer, from, name string, mode int64) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil {
		err = to.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: info.Size(), ModTime: r.at, Format: tar.FormatUSTAR})
	}
	if err == nil {
		_, err = io.Copy(to, file)
	}
	return errors.Join(err, file.Close())
}
