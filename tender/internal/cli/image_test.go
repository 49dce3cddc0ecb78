package cli_test

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenderhq/tender/internal/testing/oci"
)

// A command runs in an image, or the image's own command does. The digest is shown, and errors are sentences.
func TestRunInAnImage(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	if stdout, _, _ := tender(t, d.env, "get", "agents", "-o", "json"); !strings.Contains(stdout, ",images,") {
		t.Skip("the agent of this machine runs no tasks in images")
	}
	registry := oci.Serve(t)
	files := append(oci.Programs(t, "sh", "sleep"), oci.File{Name: "etc/"}, oci.File{Name: "etc/release", Content: "test image\n", Mode: 0o644})
	reference, digest := registry.Push(t, "shown:v1", oci.Image(t, v1.Config{
		Env: []string{"PATH=/bin", "WHERE=image"}, Entrypoint: []string{"sh", "-c"}, Cmd: []string{"read line < /etc/release; echo own: $line"},
	}, oci.Layer(t, files...)))
	for _, c := range []struct {
		args []string
		said string
		code int
	}{
		{nil, "own: test image\n", 0},
		{[]string{"--", "echo $WHERE; exit 3"}, "image\n", 3},
		{[]string{"--env", "WHERE=task", "--shell", "--", "echo $WHERE in $(pwd)"}, "task in /sandbox\n", 0},
	} {
		stdout, stderr, code := tender(t, d.env, append([]string{"run", "--image", reference}, c.args...)...)
		if stdout != c.said || code != c.code {
			t.Errorf("%q: exit code %d, %q, %s", c.args, code, stdout, stderr)
		}
	}
	stdout, stderr, code := tender(t, d.env, "run", "--detach", "--name", "kept", "--image", reference, "--", "exec sleep 1000")
	if code != 0 || !strings.HasSuffix(stdout, "/kept.0\n") {
		t.Fatalf("exit code %d, %q, %s", code, stdout, stderr)
	}
	until(t, "the digest", func() bool {
		stdout, _, _ := tender(t, d.env, "describe", "task", "kept.0")
		return strings.Contains(stdout, registry.Host+"/shown@"+digest)
	})
	if stdout, stderr, code := tender(t, d.env, "teardown", "kept", "--force"); code != 0 {
		t.Errorf("teardown: exit code %d, %q, %s", code, stdout, stderr)
	}
	until(t, "the image to be unused and pruned", func() bool {
		stdout, stderr, code := tender(t, d.env, "prune", d.Agents[0].ID)
		if code != 0 {
			t.Fatalf("prune: exit code %d, %s", code, stderr)
		}
		return stdout != d.Agents[0].ID+": 0 MB\n"
	})
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "--image", registry.Host + "/nothing:v1"}, "FAILED: FETCH_FAILED: pulling the image " + registry.Host + "/nothing:v1: "},
		{[]string{"run", "--image", "https://example.org/app"}, "references have none"},
		{[]string{"run", "--image", reference, "--shell"}, "--shell needs a line"},
		{[]string{"run", "--shell"}, "'tender run' needs a command"},
	} {
		if stdout, stderr, code := tender(t, d.env, c.args...); code == 0 || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, %q, %s", c.args, code, stdout, stderr)
		}
	}
}
