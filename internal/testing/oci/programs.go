package oci

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Programs returns programs of this machine as files bin/NAME of an image, with the libraries that they need. It skips
// the test if there is no such program.
func Programs(t testing.TB, names ...string) []File {
	t.Helper()
	files := []File{{Name: "bin/"}}
	known := map[string]bool{}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("this machine has no program %s to make an image of", name)
		}
		files = append(files, File{Name: "bin/" + name, Content: read(t, path)})
		files = append(files, needed(t, path, known)...)
	}
	return files
}

func read(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// needed returns the libraries of a program that are not known yet, with those that these need.
func needed(t testing.TB, path string, known map[string]bool) (files []File) {
	t.Helper()
	program, err := elf.Open(path)
	if err != nil {
		t.Skipf("%s is no program to make an image of: %v", path, err)
	}
	defer program.Close()
	var libraries []string
	if section := program.Section(".interp"); section != nil {
		loader, err := section.Data()
		if err != nil {
			t.Fatal(err)
		}
		libraries = append(libraries, string(loader[:len(loader)-1]))
	}
	imported, err := program.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range imported {
		found, err := library(name)
		if err != nil {
			t.Skipf("%s needs %s: %v", path, name, err)
		}
		libraries = append(libraries, found)
	}
	for _, path := range libraries {
		if known[path] {
			continue
		}
		known[path] = true
		files = append(files, File{Name: path, Content: read(t, path)})
		files = append(files, needed(t, path, known)...)
	}
	return files
}

// library finds a library where the loader looks for it.
func library(name string) (string, error) {
	for _, pattern := range []string{"/lib/*-linux-gnu*/", "/usr/lib/*-linux-gnu*/", "/lib64/", "/usr/lib64/", "/lib/", "/usr/lib/"} {
		if found, err := filepath.Glob(pattern + name); err == nil && len(found) > 0 {
			return found[0], nil
		}
	}
	return "", errors.New("it is in none of the folders where libraries are")
}
