// Command release makes what a release consists of, in a folder: archives of the program for each platform, packages
// for Debian's and Red Hat's systems, a list of all that was built in (CycloneDX), and checksums. The same sources, Go
// and version give the same bytes.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// release is what is made.
type release struct {
	version string    // v0.1.0
	commit  string    // of the sources
	at      time.Time // when they were committed: the time of all files
	packer  string    // the program nfpm
	out     string    // the folder for all of it
}

// platform is one that the program is built for.
type platform struct {
	os, arch string
	rpm      string // what Red Hat's systems call the architecture; "": no packages are made, as with clients
}

var platforms = []platform{{"linux", "amd64", "x86_64"}, {"linux", "arm64", "aarch64"}, {"darwin", "arm64", ""}}

// versions are written as Go's modules have them.
var versions = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`)

func main() {
	var r release
	var seconds int64
	only := flag.String("only", "", "make only what is for this platform, OS/ARCH")
	flag.StringVar(&r.version, "version", "", "the version, such as v0.1.0")
	flag.StringVar(&r.commit, "commit", "unknown", "the commit of the sources")
	flag.Int64Var(&seconds, "time", 0, "when the sources were committed, in seconds since 1970")
	flag.StringVar(&r.packer, "nfpm", ".tools/nfpm", "the program that makes packages")
	flag.StringVar(&r.out, "out", "bin/release", "the folder to make; what is in it is removed")
	flag.Parse()
	r.at = time.Unix(seconds, 0).UTC()
	if err := r.make(*only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r release) make(only string) error {
	if !versions.MatchString(r.version) {
		return fmt.Errorf("VERSION is %q; write such as v0.1.0 (make release VERSION=v0.1.0)", r.version)
	}
	if err := saysSo("CHANGELOG.md", strings.TrimPrefix(r.version, "v")); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755)); err != nil {
		return err
	}
	for _, p := range platforms {
		if only == "" || only == p.os+"/"+p.arch {
			if err := r.makeFor(p); err != nil {
				return fmt.Errorf("%s/%s: %w", p.os, p.arch, err)
			}
		}
	}
	return r.sum()
}

// saysSo refuses a version of which the list of changes says nothing: 0.1 is enough for 0.1.0 to 0.1.9.
func saysSo(file, version string) error {
	text, err := os.ReadFile(file)
	minor := version[:strings.LastIndex(strings.SplitN(version, "-", 2)[0], ".")]
	if err == nil && !strings.Contains(string(text), "\n## "+minor) {
		err = fmt.Errorf("%s has no section %q", file, "## "+minor)
	}
	return err
}

func (r release) makeFor(p platform) error {
	work, err := os.MkdirTemp("", "tender-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }() // what is left are temporary files
	program := filepath.Join(work, "tender")
	if err := r.build(p, program); err != nil {
		return err
	}
	name := "tender_" + r.version + "_" + p.os + "_" + p.arch
	if err := r.list(program, name); err != nil {
		return err
	}
	if err := r.archive(program, name); err != nil || p.rpm == "" {
		return err
	}
	return r.pack(work, program, p)
}

// build builds the program as `make build` does.
func (r release) build(p platform, program string) error {
	const stamp = "-X github.com/tenderhq/tender/internal/version."
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace",
		"-ldflags", "-s -w "+stamp+"Version="+r.version+" "+stamp+"Commit="+r.commit, "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOFLAGS=")
	return run(build)
}

func run(command *exec.Cmd) error {
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, bytes.TrimSpace(out))
	}
	return nil
}

// deployed are the files beside the program, as they are in the sources.
func deployed() ([]string, error) {
	files := []string{"LICENSE", "README.md", "CHANGELOG.md"}
	err := filepath.WalkDir("deploy", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, filepath.ToSlash(name))
		}
		return err
	})
	return files, err
}

// pack makes the packages of a platform.
func (r release) pack(work, program string, p platform) error {
	var units []string
	for _, of := range []string{"master", "agent"} {
		name := "tender-" + of + ".service"
		text, err := os.ReadFile(filepath.Join("deploy", name))
		if err != nil {
			return err
		}
		unit := filepath.Join(work, name)
		if err := os.WriteFile(unit, bytes.ReplaceAll(text, []byte("/usr/local/bin/tender"), []byte("/usr/bin/tender")), 0o600); err != nil {
			return err
		}
		units = append(units, unit)
	}
	config, err := json.Marshal(r.packed(p, program, units)) // nfpm reads YAML, and JSON is some
	if err != nil {
		return err
	}
	file := filepath.Join(work, "nfpm.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return err
	}
	number := strings.TrimPrefix(r.version, "v")
	for kind, name := range map[string]string{"deb": "tender_" + number + "_" + p.arch + ".deb", "rpm": "tender-" + number + "." + p.rpm + ".rpm"} {
		pack := exec.Command(r.packer, "package", "--config", file, "--packager", kind, "--target", filepath.Join(r.out, name))
		pack.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.at.Unix()))
		if err := run(pack); err != nil {
			return err
		}
	}
	return nil
}

// packed says what is in a package.
func (r release) packed(p platform, program string, units []string) map[string]any {
	put := func(from, to string, mode int, kind string) map[string]any {
		return map[string]any{"src": from, "dst": to, "type": kind, "file_info": map[string]any{"mode": mode, "mtime": r.at.Format(time.RFC3339)}}
	}
	return map[string]any{
		"name": "tender", "arch": p.arch, "platform": p.os, "version": r.version, "section": "admin", "license": "Apache-2.0",
		"maintainer": "Tender's authors <https://github.com/tenderhq/tender>", "homepage": "https://github.com/tenderhq/tender",
		"description": "Shares one cluster between many frameworks by resource offers.",
		"mtime":       r.at.Format(time.RFC3339), "rpm": map[string]any{"buildhost": "tender"},
		"scripts": map[string]any{"preinstall": "deploy/package-preinstall.sh", "postinstall": "deploy/package-postinstall.sh"},
		"contents": []map[string]any{
			put(program, "/usr/bin/tender", 0o755, ""),
			put(units[0], "/usr/lib/systemd/system/tender-master.service", 0o644, ""),
			put(units[1], "/usr/lib/systemd/system/tender-agent.service", 0o644, ""),
			put("deploy/tender-master.toml", "/etc/tender/master.toml", 0o644, "config|noreplace"),
			put("deploy/tender-agent.toml", "/etc/tender/agent.toml", 0o644, "config|noreplace"),
			put("deploy/prometheus-rules.yaml", "/usr/share/tender/prometheus-rules.yaml", 0o644, ""),
			put("deploy/grafana-dashboard.json", "/usr/share/tender/grafana-dashboard.json", 0o644, ""),
			put("LICENSE", "/usr/share/doc/tender/copyright", 0o644, ""),
			put("CHANGELOG.md", "/usr/share/doc/tender/CHANGELOG.md", 0o644, ""),
		},
	}
}

// list writes the modules that are built into the program, as CycloneDX. Go has recorded them in it.
func (r release) list(program, name string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	component := func(kind, path, version, sum string) map[string]any {
		c := map[string]any{"type": kind, "name": path, "version": version, "purl": "pkg:golang/" + path + "@" + version, "bom-ref": path}
		if sum != "" {
			c["properties"] = []map[string]string{{"name": "go.sum", "value": sum}}
		}
		return c
	}
	components := []map[string]any{component("library", "std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, module := range info.Deps {
		module = or(module.Replace, module)
		components = append(components, component("library", module.Path, module.Version, module.Sum))
	}
	text, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata": map[string]any{
			"timestamp": r.at.Format(time.RFC3339), "component": component("application", info.Main.Path, r.version, ""),
		},
		"components": components,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name+".sbom.json"), append(text, '\n'), 0o644)
}

func or(replaced, module *debug.Module) *debug.Module {
	if replaced != nil {
		return replaced
	}
	return module
}

// sum writes the checksums of all files, as sha256sum reads them.
func (r release) sum() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var lines []string
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(r.out, entry.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), entry.Name()))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}
