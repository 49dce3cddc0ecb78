package settings_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

type daemon struct {
	flags      *pflag.FlagSet
	dataDir    string
	heartbeat  time.Duration
	masters    []string
	attributes map[string]string
	insecure   bool
	weight     float64
}

var names = []string{"data-dir", "heartbeat", "master", "attributes", "insecure", "weight"}

func newDaemon() *daemon {
	d := &daemon{flags: pflag.NewFlagSet("daemon", pflag.ContinueOnError)}
	d.flags.StringVar(&d.dataDir, "data-dir", "default", "")
	d.flags.DurationVar(&d.heartbeat, "heartbeat", time.Second, "")
	d.flags.StringSliceVar(&d.masters, "master", []string{"127.0.0.1:5060"}, "")
	d.flags.StringToStringVar(&d.attributes, "attributes", nil, "")
	d.flags.BoolVar(&d.insecure, "insecure", false, "")
	d.flags.Float64Var(&d.weight, "weight", 1, "")
	return d
}

func (d *daemon) merge(env map[string]string, file string) error {
	lookup := func(name string) (string, bool) { value, ok := env[name]; return value, ok }
	if file == "" {
		return settings.Merge(d.flags, names, lookup, nil)
	}
	return settings.Merge(d.flags, names, lookup, &settings.File{Name: "t.toml", Text: file})
}

func TestFlagBeforeEnvironmentBeforeFileBeforeDefault(t *testing.T) {
	env := map[string]string{"TENDER_DATA_DIR": "env"}
	file := "data-dir = \"file\"\n"
	for _, test := range []struct {
		args []string
		env  map[string]string
		file string
		want string
	}{
		{nil, nil, "", "default"},
		{nil, nil, file, "file"},
		{nil, env, file, "env"},
		{nil, env, "", "env"},
		{[]string{"--data-dir=flag"}, env, file, "flag"},
		{[]string{"--data-dir="}, env, file, ""},
	} {
		d := newDaemon()
		if err := d.flags.Parse(test.args); err != nil {
			t.Fatal(err)
		}
		if err := d.merge(test.env, test.file); err != nil {
			t.Fatal(err)
		}
		if d.dataDir != test.want {
			t.Errorf("args %v, env %v, file %q: data-dir is %q, want %q", test.args, test.env, test.file, d.dataDir, test.want)
		}
	}
}

func TestEveryKindOfValueIsTheSameFromFileAndEnvironment(t *testing.T) {
	file := newDaemon()
	err := file.merge(nil, `
heartbeat = "3s"
master = ["a:1", "b:2"]
insecure = true
weight = 2.5
[attributes]
rack = "r1"
gpus = 4
`)
	if err != nil {
		t.Fatal(err)
	}
	env := newDaemon()
	err = env.merge(map[string]string{
		"TENDER_HEARTBEAT": "3s", "TENDER_MASTER": "a:1,b:2", "TENDER_INSECURE": "true", "TENDER_WEIGHT": "2.5",
		"TENDER_ATTRIBUTES": "rack=r1,gpus=4",
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []*daemon{file, env} {
		if d.heartbeat != 3*time.Second || strings.Join(d.masters, " ") != "a:1 b:2" || !d.insecure || d.weight != 2.5 ||
			d.attributes["rack"] != "r1" || d.attributes["gpus"] != "4" || len(d.attributes) != 2 {
			t.Errorf("got %+v", d)
		}
	}
}

func TestAnEmptyListInTheFileTakesTheDefaultAway(t *testing.T) {
	d := newDaemon()
	if err := d.merge(nil, "master = []\n"); err != nil {
		t.Fatal(err)
	}
	if len(d.masters) != 0 {
		t.Errorf("masters are %v", d.masters)
	}
}

func TestWrongSettingsAreNamedWithTheirPlace(t *testing.T) {
	for _, test := range []struct {
		env  map[string]string
		file string
		want []string
	}{
		{nil, "data-dir = \"x\"\n\nheartbaet = \"1s\"\n", []string{"t.toml:3", `"heartbaet"`, `"heartbeat"`}},
		{nil, "data_dir = \"x\"\n", []string{"t.toml:1", `"data_dir"`, `"data-dir"`}},
		{nil, "zebra = 1\n", []string{"t.toml:1", `"zebra"`, "attributes, data-dir"}},
		{nil, "[zebra]\na = 1\n", []string{"t.toml:1", `"zebra"`}},
		{nil, "\nheartbeat = 5\n", []string{"t.toml:2", "heartbeat", `"5"`, "such as 5s"}},
		{nil, "heartbeat = [[1]]\n", []string{"t.toml:1", "heartbeat", "list"}},
		{nil, "\n\nheartbeat = \n", []string{"t.toml:3", "NAME = VALUE"}},
		{map[string]string{"TENDER_INSECURE": "perhaps"}, "", []string{"TENDER_INSECURE", `"perhaps"`, "true or false"}},
		{map[string]string{"TENDER_WEIGHT": "heavy"}, "", []string{"TENDER_WEIGHT", `"heavy"`, "a number"}},
	} {
		err := newDaemon().merge(test.env, test.file)
		if err == nil {
			t.Errorf("%v %q: no error", test.env, test.file)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v %q: %q does not say %q", test.env, test.file, err, want)
			}
		}
	}
}

func TestFilesAndPortsOfTasks(t *testing.T) {
	for text, want := range map[string]api.URI{
		"/a/b":                                 {Source: "/a/b"},
		"/a/b,executable":                      {Source: "/a/b", Executable: true},
		"https://h/x,sha256=ab,name=n,extract": {Source: "https://h/x", SHA256: "ab", Name: "n", Extract: true},
	} {
		if got, err := settings.ParseURI(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ",extract", "/a,extrakt"} {
		if got, err := settings.ParseURI(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	ports, err := settings.ParsePorts([]string{"http", "admin"})
	if err != nil || len(ports) != 2 || ports["http"] != 0 || !settings.PortResources(ports).IsZero() {
		t.Errorf("%v, %v", ports, err)
	}
	ports, err = settings.ParsePorts([]string{"http=8080", "admin=8081"})
	if err != nil || ports["http"] != 8080 || settings.PortResources(ports).String() != "ports:[8080-8081]" {
		t.Errorf("%v, %v, %v", ports, settings.PortResources(ports), err)
	}
	for _, texts := range [][]string{{"http=0"}, {"http=65536"}, {"http=x"}, {"8080"}, {""}, {"a/b"}, {"http", "http"}, {"http", "admin=1"}} {
		if got, err := settings.ParsePorts(texts); err == nil {
			t.Errorf("%q is read as %v", texts, got)
		}
	}
}

func TestParseCheck(t *testing.T) {
	for text, want := range map[string]api.Check{
		"http:web/alive?a=b,c":       {HTTP: &api.HTTPCheck{Port: "web", Path: "/alive?a=b,c"}},
		"ready,interval=1s,http:web": {HTTP: &api.HTTPCheck{Port: "web", Path: "/"}, Readiness: true, Interval: time.Second},
		"tcp:db":                     {TCP: &api.TCPCheck{Port: "db"}},
		"timeout=2s,grace=1m,failures=5,grpc:rpc/a.B": {GRPC: &api.GRPCCheck{Port: "rpc", Service: "a.B"}, Timeout: 2 * time.Second, Grace: time.Minute, Failures: 5},
		"shell:test -f up, or not: x=y":               {Command: &api.Command{Shell: "test -f up, or not: x=y"}},
	} {
		if got, err := settings.ParseCheck(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is read as %+v, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"": "unknown", "ready": "says nothing to check", "http:": "says nothing to check", "htp:web": "http", "interval=x,tcp:a": "write a time",
		"failures=many,tcp:a": "as a number", "pause=1s,tcp:a": "interval",
	} {
		if got, err := settings.ParseCheck(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is read as %+v, %v", text, got, err)
		}
	}
}

func TestParseLimits(t *testing.T) {
	limits, err := settings.ParseLimits([]string{"cpus=1.5", "mem=256", "pids=100"})
	if want := (api.Limits{CPUs: 1500, Mem: 256_000, Pids: 100}); err != nil || limits != want {
		t.Errorf("got %+v, %v", limits, err)
	}
	for _, text := range []string{"", "cpus", "cpus=x", "pids=1.5", "disk=1", "mem=-1"} {
		if got, err := settings.ParseLimits([]string{text}); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}
