package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/testing/freeports"
)

// containerfile has the instructions of deploy/Containerfile, each as its words.
func containerfile(t *testing.T) (all [][]string) {
	t.Helper()
	for line := range strings.Lines(text(t, "deploy/Containerfile")) {
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			all = append(all, words)
		}
	}
	return all
}

// TestContainerfile: what it copies, runs and names is there, and its Go is the one that go.mod asks for. The program
// below its file system is tried in TestRelease, as there may be no container engine.
func TestContainerfile(t *testing.T) {
	t.Chdir("../..")
	makefile := text(t, "Makefile")
	goes := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(text(t, "go.mod"))[1]
	made := map[string]bool{"/src/bin/tender": strings.Contains(makefile, "-o bin/tender .")}
	programs := map[string]bool{}
	for _, words := range containerfile(t) {
		line := strings.Join(words, " ")
		switch words[0] {
		case "FROM":
			if strings.Contains(words[1], "golang:") && !strings.HasSuffix(words[1], "golang:"+goes) {
				t.Errorf("%s: go.mod asks for Go %s", line, goes)
			}
		case "RUN":
			for _, command := range regexp.MustCompile(`make (\S+)|mkdir (\S+)`).FindAllStringSubmatch(line, -1) {
				if made[command[2]] = true; command[1] != "" && !strings.Contains(makefile, "\n"+command[1]+":") {
					t.Errorf("%s: there is no such target", line)
				}
			}
		case "COPY":
			words = slices.DeleteFunc(words[1:], func(word string) bool { return strings.HasPrefix(word, "--") })
			for _, from := range words[:len(words)-1] {
				if _, err := os.Stat(from); strings.Contains(line, "--from=") && !made[from] || !strings.Contains(line, "--from=") && err != nil {
					t.Errorf("%s: there is no %s", line, from)
				}
			}
			programs[words[len(words)-1]] = true
		case "ENTRYPOINT":
			var command []string
			if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "ENTRYPOINT ")), &command); err != nil || !programs[command[0]] {
				t.Errorf("%s: it begins nothing that is copied (%v)", line, err)
			}
		case "EXPOSE":
			for _, port := range words[1:] {
				if !strings.Contains(text(t, "tender/internal/cli/master.go"), "-port\", "+port+",") {
					t.Errorf("%s: %s is no default port of a master", line, port)
				}
			}
		}
	}
}

// theContainerRuns runs the program as the container would: alone in its file system, and as the container's user.
func theContainerRuns(t *testing.T, program string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("only root can change the root folder: the container is not tried")
		return
	}
	root := t.TempDir()
	var user uint32
	var entry []string
	for _, words := range containerfile(t) {
		switch words[0] {
		case "USER":
			if _, err := fmt.Sscanf(words[1], "%d:", &user); err != nil {
				t.Fatal(err)
			}
		case "ENTRYPOINT":
			if err := json.Unmarshal([]byte(strings.Join(words[1:], " ")), &entry); err != nil {
				t.Fatal(err)
			}
		}
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.WriteFile(filepath.Join(root, entry[0]), content, 0o755), os.Mkdir(filepath.Join(root, "data"), 0o755),
		os.Chown(filepath.Join(root, "data"), int(user), int(user)), os.Chmod(root, 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var ports []string
	for range 3 {
		ports = append(ports, strconv.Itoa(freeports.ReserveOne(t)))
	}
	said := new(strings.Builder)
	master := &exec.Cmd{
		Path: entry[0], Args: append(entry, "master", "--insecure", "--data-dir", "/data", "--id", "m1", "--bind", "127.0.0.1",
			"--grpc-port", ports[0], "--http-port", ports[1], "--raft-port", ports[2]),
		Dir: "/", Env: []string{}, Stdout: said, Stderr: said,
		SysProcAttr: &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: user}},
	}
	if err := master.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = master.Process.Kill() }()
	ready := false
	for deadline := time.Now().Add(time.Minute); !ready && time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
		answer, err := http.Get("http://127.0.0.1:" + ports[1] + "/readyz")
		if err == nil {
			ready = answer.StatusCode == http.StatusOK
			_ = answer.Body.Close()
		}
	}
	_ = master.Process.Signal(syscall.SIGTERM)
	if err := master.Wait(); !ready || err != nil {
		t.Errorf("a master in a container is ready: %v, and ends with %v: %s", ready, err, said)
	}
}
