package cli_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// TestMesosIsClosed: without --open nobody gets in who does not prove to be a principal, and --open is for loopback.
func TestMesosIsClosed(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	g := start(t, d.env, "mesos", "--port", "0", "--agent-port", "0")
	g.await("find their master at")
	address := regexp.MustCompile(`master at (\S+)\.`).FindStringSubmatch(g.stderr.String())[1]
	for name, password := range map[string]string{"": "", "ann": "", "bob": "tender-token-of-nobody"} {
		request, err := http.NewRequest(http.MethodPost, "http://"+address+"/api/v1/scheduler",
			strings.NewReader(`{"type":"SUBSCRIBE","subscribe":{"framework_info":{"user":"u","name":"n"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		if name != "" {
			request.SetBasicAuth(name, password)
		}
		reply, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close()
		if reply.StatusCode != http.StatusUnauthorized || reply.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%q with %q is answered %s", name, password, reply.Status)
		}
	}
	for _, args := range [][]string{{"--open", "--bind", "0.0.0.0", "--advertise", "here"}, {"--bind", "0.0.0.0"}, {"--bind", "0.0.0.0", "--advertise", "here"}, {"--cert", "x"}} {
		if _, stderr, code := tender(t, d.env, append([]string{"mesos"}, args...)...); code != 2 {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

// TestMesosCheck: what would not work is told of each framework, or of one, and by the exit code.
func TestMesosCheck(t *testing.T) {
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/state" {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, "../../../internal/mesos/check/testdata/state.json")
	}))
	defer old.Close()
	address := strings.TrimPrefix(old.URL, "http://")
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{address}, 1, "(2, such as web.1, web.2)"},
		{[]string{address, "well"}, 0, "well (d): all of it would work; 1 task now\n"},
		{[]string{old.URL + "/", "b"}, 1, "marathon (b): 5 tasks now\n"},
		{[]string{address, "nobody"}, 1, ""},
		{[]string{address + "/elsewhere"}, 1, ""},
		{nil, 2, ""},
	} {
		out, stderr, code := new(shell).run(t, append([]string{"mesos", "check"}, test.args...)...)
		if code != test.code || !strings.Contains(out, test.says) {
			t.Errorf("%v: exit code %d, %s%s", test.args, code, out, stderr)
		}
	}
}
