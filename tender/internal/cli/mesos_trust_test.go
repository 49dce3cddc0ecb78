package cli_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tenderhq/tender/internal/mesos/codec"
)

// TestMesosTrust: over TLS of an authority of one's own, each route lets in who may, and nobody else.
func TestMesosTrust(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	own, certFile, keyFile := certificate(t)
	g := start(t, d.env, "mesos", "--port", "0", "--agent-port", "0", "--cert", certFile, "--key", keyFile)
	g.await("find their master at")
	address := regexp.MustCompile(`master at (\S+)\.`).FindStringSubmatch(g.stderr.String())[1]
	mint := func(args ...string) string {
		out, stderr, code := tender(t, d.env, append([]string{"token", "create"}, args...)...)
		if code != 0 {
			t.Fatalf("token create %v: %s", args, stderr)
		}
		return strings.TrimSpace(out)
	}
	framework := mint("framework", "--principal", "ann")
	operator := mint("operator", "--principal", "eve")

	subscribe := `{"type":"SUBSCRIBE","subscribe":{"framework_info":{"user":"u","name":"old","roles":["secret"],"capabilities":[{"type":"MULTI_ROLE"}]}}}`
	stream, err := own.Do(asked(t, "POST", "https://"+address+"/api/v1/scheduler", subscribe, "eve", operator)) // it stays open
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	record, err := codec.NewRecordReader(stream.Body, 1<<20).Next()
	if err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(`"framework_id":{"value":"([^"]+)"`).FindStringSubmatch(string(record))[1]
	for _, route := range []struct {
		method, path, body string
		// How the framework's principal is answered, and the operator's. Who proves nothing is answered 401 everywhere.
		framework, operator int
	}{
		{"GET", "/state", "", 200, 200},
		{"GET", "/master/slaves", "", 200, 200},
		{"GET", "/tasks", "", 200, 200},
		{"GET", "/frameworks", "", 200, 200},
		{"GET", "/roles", "", 200, 200},
		{"GET", "/metrics/snapshot", "", 200, 200},
		{"POST", "/api/v1", `{"type":"GET_STATE"}`, 200, 200},
		{"POST", "/api/v1", `{"type":"GET_EXECUTORS"}`, 200, 200},
		{"POST", "/api/v1", `{"type":"GET_OPERATIONS"}`, 200, 200},
		{"POST", "/api/v1", `{"type":"GET_FLAGS"}`, 403, 200},
		{"GET", "/flags", "", 403, 200},
		{"GET", "/files/read?path=/master/log&offset=0", "", 403, 200},
		{"POST", "/api/v1", `{"type":"UPDATE_WEIGHTS","update_weights":{"weight_infos":[{"role":"a","weight":2}]}}`, 403, 200},
		{"PUT", "/weights", `[{"role":"a","weight":2}]`, 403, 200},
		{"POST", "/api/v1", `{"type":"DEACTIVATE_AGENT","deactivate_agent":{"agent_id":{"value":"agent-1"}}}`, 403, 200},
		{"POST", "/teardown", "frameworkId=framework-99", 403, 404},
		{"POST", "/api/v1/scheduler", `{"type":"TEARDOWN","framework_id":{"value":"` + id + `"}}`, 401, 400},   // its owner names no stream
		{"POST", "/api/v1/scheduler", `{"type":"TEARDOWN","framework_id":{"value":"framework-99"}}`, 403, 403}, // of a framework that is not there
		{"POST", "/api/v1/scheduler", subscribe, 200, 200},                                                     // in a role that is not ann's: told by the stream
	} {
		for name, who := range map[string]struct {
			user, password string
			want           int
		}{
			"nobody": {"", "", 401}, "a wrong token": {"ann", "tender-token-of-nobody", 401}, "no token": {"ann", "", 401},
			"a framework": {"ann", framework, route.framework}, "an operator": {"eve", operator, route.operator},
		} {
			reply, err := own.Do(asked(t, route.method, "https://"+address+route.path, route.body, who.user, who.password))
			if err != nil {
				t.Fatal(err)
			}
			var first [512]byte
			n, _ := reply.Body.Read(first[:])
			_ = reply.Body.Close()
			if reply.StatusCode != who.want {
				t.Errorf("%s %s %.60s by %s: %d, want %d: %s", route.method, route.path, route.body, name, reply.StatusCode, who.want, first[:n])
			}
		}
	}

	byTheAuthority(t, d, operator, framework)

	foreign, err := http.Get("https://" + address + "/version")
	if err == nil {
		foreign.Body.Close()
	}
	if !errors.As(err, new(x509.UnknownAuthorityError)) {
		t.Errorf("with a foreign authority: %v", err)
	}
	plain, err := http.Get("http://" + address + "/version")
	if err == nil {
		defer plain.Body.Close()
		if text, _ := io.ReadAll(plain.Body); plain.StatusCode == http.StatusOK {
			t.Errorf("without TLS: %s %s", plain.Status, text)
		}
	}
}

// byTheAuthority: a gateway may prove itself by a certificate of the cluster's authority, if its principal may have one,
// and then so do its peers.
func byTheAuthority(t *testing.T, d *devCluster, operator, framework string) {
	t.Helper()
	for token, says := range map[string]string{framework: "tender grant ann sign-hosts", "tender1_nonsense": "token"} {
		_, stderr, code := tender(t, append(d.env, "TENDER_TOKEN="+token), "mesos", "--port", "0", "--agent-port", "0", "--tls")
		if code == 0 || !strings.Contains(stderr, says) {
			t.Errorf("without the right: exit code %d, %s", code, stderr)
		}
	}
	if _, stderr, code := tender(t, d.env, "grant", "ann", "sign-hosts"); code != 0 {
		t.Fatal(stderr)
	}
	shown, stderr, code := tender(t, d.env, "ca", "show")
	if code != 0 {
		t.Fatal(stderr)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(shown)) {
		t.Fatalf("no certificate: %s", shown)
	}
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	begin := func(args ...string) string {
		g := start(t, append(d.env, "TENDER_TOKEN="+framework), append([]string{"mesos", "--port", "0", "--agent-port", "0", "--tls"}, args...)...)
		g.await("find their master at")
		return regexp.MustCompile(`master at (\S+)\.`).FindStringSubmatch(g.stderr.String())[1]
	}
	first := begin()
	second := begin("--peers", first)
	subscribe := `{"type":"SUBSCRIBE","subscribe":{"framework_info":{"user":"u","name":"known"}}}`
	stream, err := trusting.Do(asked(t, "POST", "https://"+first+"/api/v1/scheduler", subscribe, "eve", operator)) // it stays open
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	record, err := codec.NewRecordReader(stream.Body, 1<<20).Next()
	if err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(`"framework_id":{"value":"([^"]+)"`).FindStringSubmatch(string(record))[1]
	call := asked(t, "POST", "https://"+second+"/api/v1/scheduler", `{"type":"REVIVE","framework_id":{"value":"`+id+`"}}`, "eve", operator)
	call.Header.Set("Mesos-Stream-Id", stream.Header.Get("Mesos-Stream-Id"))
	passed, err := trusting.Do(call)
	if err != nil {
		t.Fatal(err)
	}
	defer passed.Body.Close()
	if text, _ := io.ReadAll(passed.Body); passed.StatusCode != http.StatusAccepted {
		t.Errorf("a call at a peer is answered %s %s", passed.Status, text)
	}
	_, port, _ := strings.Cut(first, ":")
	other, err := trusting.Get("https://localhost:" + port + "/version")
	if err == nil {
		other.Body.Close()
	}
	if !errors.As(err, new(x509.HostnameError)) {
		t.Errorf("under another name: %v", err)
	}
}

// asked makes a request with basic authentication, if there is a user.
func asked(t *testing.T, method, url, body, user, password string) *http.Request {
	t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if !strings.HasPrefix(body, "{") && !strings.HasPrefix(body, "[") {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if user != "" {
		request.SetBasicAuth(user, password)
	}
	return request
}

// certificate writes a certificate for 127.0.0.1 with its key into files, and returns a client that trusts it.
func certificate(t *testing.T) (client *http.Client, certFile, keyFile string) {
	t.Helper()
	other := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	secret, err := x509.MarshalPKCS8PrivateKey(other.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(t.TempDir(), "crt"), filepath.Join(t.TempDir(), "key")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: other.Certificate().Raw}, keyFile: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return other.Client(), certFile, keyFile
}
