// Command exported prints the exported API of Tender's public packages, a line for each
// name, sorted: what api/exported.txt holds, so that no change of it goes unseen. It
// reads sources and compiles nothing. Run it in the project's folder; see make api.
package main

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// public lists the packages that users import, with all packages below those that end with "/...". api/v1 is not among
// them: its contract is the .proto files, which make proto checks.
var public = []string{
	"api", "client", "allocator", "allocator/allocatortest", "allocator/constraint", "allocator/engine", "allocator/fairshare", "allocator/priority",
	"allocator/remote", "framework/...", "tender",
}

const header = `# The exported API of the public packages, which programs of others are built on.
# make check compares it with the sources. Changed on purpose? make api, then read the
# diff as one whose program it may break.
`

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "exported:", err)
		os.Exit(1)
	}
}

func run() error {
	out := bufio.NewWriter(os.Stdout)
	if _, err := out.WriteString(header); err != nil {
		return err
	}
	folders, err := packages(os.DirFS("."), public)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		lines, err := describe(os.DirFS("."), folder)
		if err != nil {
			return err
		}
		for _, line := range lines {
			fmt.Fprintf(out, "%s: %s\n", folder, line)
		}
	}
	return out.Flush()
}

// packages returns the folders of the packages that the patterns name.
func packages(root fs.FS, patterns []string) ([]string, error) {
	var folders []string
	for _, pattern := range patterns {
		top, below := strings.CutSuffix(pattern, "/...")
		err := fs.WalkDir(root, top, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case !entry.IsDir():
				return nil
			case path != top && (!below || skipped(entry.Name())):
				return fs.SkipDir
			}
			sources, err := sourcesOf(root, path)
			if len(sources) > 0 {
				folders = append(folders, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders), nil
}

func skipped(name string) bool { return name == "testdata" || name == "internal" || name == "vendor" }

// sourcesOf returns a package's files without its tests.
func sourcesOf(root fs.FS, folder string) ([]string, error) {
	names, err := fs.Glob(root, filepath.ToSlash(filepath.Join(folder, "*.go")))
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "_test.go") }), err
}
