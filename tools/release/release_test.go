package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestVersions: what is no version, or is not in the list of changes, is not released.
func TestVersions(t *testing.T) {
	t.Chdir("../..")
	for _, version := range []string{"", "0.1.0", "v1", "v0.1.0 -x", "v99.0.0"} {
		if err := (release{version: version, out: t.TempDir()}).make("none/none"); err == nil {
			t.Errorf("%q is released", version)
		}
	}
	if err := (release{version: "v0.1.3", out: filepath.Join(t.TempDir(), "out")}).make("none/none"); err != nil {
		t.Error(err)
	}
}

// TestRelease makes what a release has for this platform, twice, with the same bytes; unpacks the archive, installs the
// package into a root of its own, and runs the programs from there. It builds programs, and so runs only where `make
// test-release` names nfpm.
func TestRelease(t *testing.T) {
	packer := os.Getenv("TENDER_TEST_RELEASE")
	if packer == "" {
		t.Skip("make test-release runs it: it needs nfpm, and builds the program")
	}
	t.Chdir("../..")
	r := release{version: "v0.1.0", commit: "0123456789abcdef", at: time.Unix(1_700_000_000, 0).UTC(), packer: packer, out: filepath.Join(t.TempDir(), "one")}
	again := r
	again.out = filepath.Join(t.TempDir(), "two")
	for _, one := range []release{r, again} {
		if err := one.make(runtime.GOOS + "/" + runtime.GOARCH); err != nil {
			t.Fatal(err)
		}
	}
	sums := text(t, filepath.Join(r.out, "SHA256SUMS"))
	if other := text(t, filepath.Join(again.out, "SHA256SUMS")); sums != other {
		t.Errorf("the same sources were released as\n%sand as\n%s", sums, other)
	}
	files := 0
	for line := range strings.Lines(sums) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if got := fmt.Sprintf("%x", sha256.Sum256([]byte(text(t, filepath.Join(r.out, name))))); got != sum {
			t.Errorf("%s has the sum %s", name, got)
		}
		files++
	}
	if runtime.GOOS == "linux" && files != 4 {
		t.Errorf("%d files are released:\n%s", files, sums)
	}
	theArchiveRuns(t, r)
	theModulesAreListed(t, r)
	theDebInstalls(t, r)
	theRPMIsRead(t, r)
	theOtherMachineRuns(t, r)
}

// theOtherMachineRuns makes a release for arm64, and runs the program on a processor that is made up, where there is one.
func theOtherMachineRuns(t *testing.T, r release) {
	t.Helper()
	emulator, err := exec.LookPath("qemu-aarch64-static")
	if err != nil || runtime.GOARCH == "arm64" {
		t.Log("qemu-aarch64-static is not here: a release for arm64 is not tried")
		return
	}
	r.out = filepath.Join(t.TempDir(), "arm64")
	if err := r.make("linux/arm64"); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "tender")
	unpackProgram(t, filepath.Join(r.out, "tender_"+r.version+"_linux_arm64.tar.gz"), program)
	out, err := exec.Command(emulator, program, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "tender v0.1.0 (0123456789ab) ") || !strings.Contains(string(out), "linux/arm64") {
		t.Errorf("%s, %v", out, err)
	}
}

func theArchiveRuns(t *testing.T, r release) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "tender")
	has := unpackProgram(t, filepath.Join(r.out, "tender_"+r.version+"_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz"), program)
	for _, file := range []string{"tender", "LICENSE", "CHANGELOG.md", "deploy/tender-master.service", "deploy/Containerfile", "deploy/three-masters.sh"} {
		if !has[file] {
			t.Errorf("the archive lacks %s", file)
		}
	}
	saysItsVersion(t, program)
	theContainerRuns(t, program)
}

// unpackProgram unpacks the program of an archive, and returns what the archive has below its one folder.
func unpackProgram(t *testing.T, archive, program string) (has map[string]bool) {
	t.Helper()
	packed, err := gzip.NewReader(strings.NewReader(text(t, archive)))
	if err != nil {
		t.Fatal(err)
	}
	has = make(map[string]bool)
	for files := tar.NewReader(packed); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return has
		}
		if err != nil {
			t.Fatal(err)
		}
		_, inside, _ := strings.Cut(header.Name, "/")
		if has[inside] = true; inside != "tender" {
			continue
		}
		content, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program, content, os.FileMode(header.Mode)); err != nil {
			t.Fatal(err)
		}
	}
}

// saysItsVersion runs a program. It is the first thing that whoever installs it does.
func saysItsVersion(t *testing.T, program string) {
	t.Helper()
	out, err := exec.Command(program, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "tender v0.1.0 (0123456789ab) ") {
		t.Errorf("%s: %s, %v", program, out, err)
	}
}

func theModulesAreListed(t *testing.T, r release) {
	t.Helper()
	var list struct {
		BOMFormat string `json:"bomFormat"`
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version, Purl string }
	}
	if err := json.Unmarshal([]byte(text(t, filepath.Join(r.out, "tender_"+r.version+"_"+runtime.GOOS+"_"+runtime.GOARCH+".sbom.json"))), &list); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range list.Components {
		names[c.Name] = c.Version != "" && strings.HasPrefix(c.Purl, "pkg:golang/")
	}
	if list.BOMFormat != "CycloneDX" || list.Metadata.Component.Version != r.version || !names["std"] || !names["google.golang.org/grpc"] || !names["github.com/hashicorp/raft"] {
		t.Errorf("%+v", list)
	}
}

// theDebInstalls unpacks the package, and lets dpkg install it, into roots of their own.
func theDebInstalls(t *testing.T, r release) {
	t.Helper()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Log("dpkg is not here: the package for Debian was made, and not tried")
		return
	}
	deb := filepath.Join(r.out, "tender_0.1.0_"+runtime.GOARCH+".deb")
	root := t.TempDir()
	if out, err := exec.Command("dpkg-deb", "-x", deb, root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	saysItsVersion(t, filepath.Join(root, "usr/bin/tender"))
	for _, file := range []string{"etc/tender/master.toml", "etc/tender/agent.toml", "usr/share/tender/prometheus-rules.yaml"} {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			t.Error(err)
		}
	}
	if out, err := exec.Command("dpkg-deb", "-f", deb, "Version", "Architecture").CombinedOutput(); err != nil || string(out) != "Version: 0.1.0\nArchitecture: "+runtime.GOARCH+"\n" {
		t.Errorf("%s, %v", out, err)
	}
	theUnitsAreRight(t, root)
	if os.Geteuid() == 0 {
		dpkgInstalls(t, deb)
	}
}

// dpkgInstalls lets dpkg install the package into a root of its own, and take it out again. The scripts, which make a
// user and speak to systemd, run with a path on which these are programs that do nothing.
func dpkgInstalls(t *testing.T, deb string) {
	t.Helper()
	root, idle := t.TempDir(), t.TempDir()
	for _, folder := range []string{"var/lib/dpkg/updates", "var/lib/dpkg/info"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"getent", "useradd", "systemctl"} {
		if err := os.WriteFile(filepath.Join(idle, program), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dpkg := func(args ...string) {
		t.Helper()
		command := exec.Command("dpkg", append([]string{"--root=" + root, "--force-script-chrootless", "--force-bad-path"}, args...)...)
		command.Env = []string{"PATH=" + idle + ":" + os.Getenv("PATH")}
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("dpkg %v: %v: %s", args, err, out)
		}
	}
	dpkg("-i", deb)
	saysItsVersion(t, filepath.Join(root, "usr/bin/tender"))
	dpkg("--remove", "tender")
	if _, err := os.Stat(filepath.Join(root, "usr/bin/tender")); err == nil {
		t.Error("the program is still there")
	}
	if _, err := os.Stat(filepath.Join(root, "etc/tender/master.toml")); err != nil {
		t.Errorf("settings are kept until they are purged: %v", err)
	}
}

func theUnitsAreRight(t *testing.T, root string) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("systemd-analyze is not here: the units are not tried")
		return
	}
	for _, of := range []string{"master", "agent"} {
		unit := filepath.Join(root, "usr/lib/systemd/system/tender-"+of+".service")
		content := text(t, unit)
		if !strings.Contains(content, "ExecStart=/usr/bin/tender "+of) {
			t.Errorf("%s starts another program:\n%s", unit, content)
		}
		// Only in the root is the program where the package puts it.
		here := filepath.Join(t.TempDir(), filepath.Base(unit))
		if err := os.WriteFile(here, []byte(strings.ReplaceAll(content, "/usr/bin/tender", filepath.Join(root, "usr/bin/tender"))), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", here).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			// A systemd that is older than a key ignores it, which it says.
			if strings.Contains(line, filepath.Base(unit)) && !strings.Contains(line, "ignoring") {
				t.Errorf("%s (%v)", line, err)
			}
		}
	}
}

func theRPMIsRead(t *testing.T, r release) {
	t.Helper()
	rpms, err := filepath.Glob(filepath.Join(r.out, "*.rpm"))
	if err != nil || runtime.GOOS == "linux" && len(rpms) != 1 {
		t.Fatalf("%v, %v", rpms, err)
	}
	for _, rpm := range rpms {
		if !strings.HasPrefix(text(t, rpm), "\xed\xab\xee\xdb") {
			t.Errorf("%s is no package of Red Hat's systems", rpm)
		}
		if _, err := exec.LookPath("rpm"); err != nil {
			t.Log("rpm is not here: only the first bytes of the package were read")
			continue
		}
		if out, err := exec.Command("rpm", "-qp", "--list", rpm).CombinedOutput(); err != nil || !strings.Contains(string(out), "/usr/bin/tender") {
			t.Errorf("%s, %v", out, err)
		}
	}
}

func text(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestScripts: a shell can read each script, and the one that makes a quorum does nothing without three machines.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("../../deploy/*.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%v, %v", scripts, err)
	}
	for _, script := range scripts {
		if out, err := exec.Command("sh", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %s", script, out)
		}
	}
	if out, err := exec.Command("sh", "../../deploy/three-masters.sh", "10.0.0.1").CombinedOutput(); err == nil || !strings.Contains(string(out), "usage:") {
		t.Errorf("%s, %v", out, err)
	}
}

// TestThreeMasters: the script says to three machines what makes a quorum of them, in the right order: the token of the
// first reaches the others before they start, and is on no command line. The machines are a program that notes what it
// is told.
func TestThreeMasters(t *testing.T) {
	folder := t.TempDir()
	notes, machine := filepath.Join(folder, "notes"), filepath.Join(folder, "machine")
	// It answers as machines would: no master has a key yet, the first makes a token, and three are listed.
	program := `#!/bin/sh
printf '%s: %s\n' "$1" "$2" >>` + notes + `
case "$2" in
*"test -e"*) exit 1 ;;
*"token create"*) echo the-token ;;
*"cat >/etc"*) printf 'reads %s\n' "$(cat)" >>` + notes + ` ;;
esac
`
	if err := os.WriteFile(machine, []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	script := exec.Command("sh", "../../deploy/three-masters.sh", "10.0.0.1", "10.0.0.2", "10.0.0.3")
	script.Env = append(os.Environ(), "SSH="+machine)
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	said := text(t, notes)
	for _, id := range []string{"m1", "m2", "m3"} {
		if !strings.Contains(said, `id = "`+id+`"`) {
			t.Errorf("%s is not set up:\n%s", id, said)
		}
	}
	token, second := strings.Index(said, "reads the-token"), strings.Index(said, `id = "m2"`)
	if token < 0 || second < token || strings.Contains(strings.ReplaceAll(said, "reads the-token", ""), "the-token") {
		t.Errorf("the token comes too late, or stands on a command line:\n%s", said)
	}
}
