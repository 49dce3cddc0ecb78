package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/testing/hang"
)

// resultLine writes results that do not fit into a status: a file, and a file in a folder.
const resultLine = "head -c 300000 /dev/zero > result.bin; mkdir parts; echo one > parts/1"

// TestFilesAreCopied: what a task has left in its sandbox can be copied after its end. An error says what is missing.
func TestFilesAreCopied(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	if _, stderr, code := tender(t, d.env, "run", "--name", "writer", "--", "sh", "-c", resultLine); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	folder := t.TempDir()
	if _, stderr, code := tender(t, d.env, "cp", "writer:result.bin", folder); code != 0 {
		t.Errorf("cp: exit code %d, %s", code, stderr)
	}
	if info, err := os.Stat(filepath.Join(folder, "result.bin")); err != nil || info.Size() != 300_000 {
		t.Errorf("the file is here as %v, %v", info, err)
	}
	if stdout, stderr, code := tender(t, d.env, "cp", "writer:parts/1", "-"); code != 0 || stdout != "one\n" {
		t.Errorf("exit code %d, %q %s", code, stdout, stderr)
	}
	for args, want := range map[string]string{
		"writer -o name":       "parts\nresult.bin\nstderr\nstdout\n",
		"writer parts -o name": "1\n",
		"writer --limit 1":     "parts   folder",
		"writer -o json":       `"bytes": 300000`,
	} {
		stdout, stderr, code := tender(t, d.env, append([]string{"files"}, strings.Fields(args)...)...)
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("files %s: exit code %d, %q, %s", args, code, stdout, stderr)
		}
	}
	if _, stderr, code := tender(t, d.env, "files", "writer", "result.bin"); code != 2 || !strings.Contains(stderr, "this is a file; 'tender cp' copies it") {
		t.Errorf("files of a file: exit code %d, %s", code, stderr)
	}
	if _, stderr, code := tender(t, d.env, "files", "writer:parts"); code != 2 || !strings.Contains(stderr, "write 'tender files writer parts'") {
		t.Errorf("files of what cp takes: exit code %d, %s", code, stderr)
	}
	missing := filepath.Join(folder, "missing", "file")
	for _, args := range [][]string{{"cp", "writer:result.bin", missing}, {"raft", "snapshot", "save", missing}} {
		if _, stderr, code := tender(t, d.env, args...); code != 1 || !strings.Contains(stderr, missing+" can't be written: no such file") {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
	for word, want := range map[string]string{
		"writer:parts":         "this is a folder; it has 1",
		"writer:nothing":       "has no such file in its folder",
		"writer:../../../etc":  "has no such file in its folder",
		"writer":               "write TASK:PATH",
		"nobody-knows-it:file": "nobody-knows-it",
	} {
		if _, stderr, code := tender(t, d.env, "cp", word, folder); code == 0 || !strings.Contains(stderr, want) || strings.Contains(stderr, "agent.files") {
			t.Errorf("cp %s: exit code %d, %q", word, code, stderr)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v", left, err)
	}
}

// fetcher runs one task and fetches its result after its end.
type fetcher struct {
	client *framework.Client
	asked  bool
	errs   map[string]error
	result bytes.Buffer
	output chan string // brings what it has followed

	followed string
	end      context.CancelFunc
}

func (f *fetcher) Subscribed(_ context.Context, client *framework.Client) error {
	f.client = client
	return nil
}

func (f *fetcher) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if f.asked {
		return nil
	}
	f.asked = true
	return []api.Answer{api.Launch(offers[0], api.Task{
		ID: "task", Resources: api.Scalars(0.1, 32), Command: &api.Command{Shell: resultLine + "; echo one; sleep 0.3; echo two"},
	})}
}

func (f *fetcher) Update(ctx context.Context, status api.Status) error {
	if (status.State == api.TaskRunning || status.State.Terminal()) && f.output == nil {
		f.output = make(chan string, 1)
		go f.follow(context.WithoutCancel(ctx))
	}
	if !status.State.Terminal() {
		return nil
	}
	f.followed = <-f.output
	f.errs = map[string]error{
		"whole":   f.client.ReadFile(ctx, "task", "result.bin", &f.result, 0),
		"large":   f.client.ReadFile(ctx, "task", "result.bin", new(bytes.Buffer), 1000),
		"none":    f.client.ReadFile(ctx, "task", "other.bin", new(bytes.Buffer), 0),
		"folder":  f.client.ReadFile(ctx, "task", "parts", new(bytes.Buffer), 0),
		"unknown": f.client.ReadFile(ctx, "other", "result.bin", new(bytes.Buffer), 0),
	}
	f.end()
	return nil
}

// follow follows the task's output from its fourth byte on.
func (f *fetcher) follow(ctx context.Context) {
	var text bytes.Buffer
	next, err := f.client.FollowOutput(ctx, "task", "stdout", 3, &text)
	f.output <- fmt.Sprint(text.String(), next, err)
}

// TestSchedulerReadsResults: a scheduler follows a task's output from an offset to its end, and fetches results that are
// larger than a status. The errors have kinds.
func TestSchedulerReadsResults(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	f := &fetcher{end: end}
	masters := strings.Split(strings.TrimPrefix(d.env[0], "TENDER_MASTER="), ",")
	ended := make(chan error, 1)
	go func() {
		ended <- framework.Run(ctx, framework.Config{Name: "fetcher", Masters: masters, TeardownAtEnd: true}, f)
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(hang.After):
		hung(t, "the end of the fetcher")
	}
	if f.errs["whole"] != nil || f.result.Len() != 300_000 {
		t.Errorf("%d bytes, %v", f.result.Len(), f.errs["whole"])
	}
	if want := "\ntwo\n8 <nil>"; f.followed != want {
		t.Errorf("it has followed %q, want %q", f.followed, want)
	}
	for which, kind := range map[string]api.Kind{"large": api.Limit, "none": api.NotFound, "folder": api.Invalid, "unknown": api.NotFound} {
		if !api.Is(f.errs[which], kind) {
			t.Errorf("%s: %v", which, f.errs[which])
		}
	}
}

// TestAnAgentWithoutAnAddress: whatever reads from an agent that serves no HTTP, or enters a task there, says so at once.
func TestAnAgentWithoutAnAddress(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	const there, none = `id == "agent-2"`, "its agent has told no address for HTTP; it was started with --http-port 0\n"
	start(t, d.env, "agent", "--data-dir", filepath.Join(t.TempDir(), "agent"), "--http-port", "0", "--resources", "cpus:1;mem:256").await(`"registered"`)
	run := start(t, d.env, "run", "--name", "mute", "--constraint", there, "--", "sleep", "1000")
	run.await("framework-1/mute.0 can't be read: " + none)
	for command, says := range map[string]string{
		"logs mute":            "the stdout of framework-1/mute.0 can't be read: ",
		"logs --follow mute":   "the stdout of framework-1/mute.0 can't be read: ",
		"logs --executor mute": "the stdout of framework-1/mute.0 can't be read: ",
		"attach mute":          "mute.0: the stdout and stderr of framework-1/mute.0 can't be read: ",
		"files mute":           "framework-1/mute.0: ",
		"cp mute:file -":       "framework-1/mute.0:file: ",
		"exec mute -- true":    "framework-1/mute.0 can't be entered: ",
	} {
		if command == "attach mute" {
			start(t, d.env, strings.Fields(command)...).await(says + none)
		} else if _, stderr, code := tender(t, d.env, strings.Fields(command)...); code != 1 || stderr != "tender: "+says+none {
			t.Errorf("%s: exit code %d, %s", command, code, stderr)
		}
	}
	run.signal(syscall.SIGINT)
	if stdout, stderr, code := tender(t, d.env, "run", "-q", "--constraint", there, "--", "sh", "-c", "echo lost; exit 7"); code != 7 || stdout != "" ||
		!strings.HasSuffix(stderr, none) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d, %q, %s", code, stdout, stderr)
	}
}
