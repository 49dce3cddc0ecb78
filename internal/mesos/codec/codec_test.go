package codec_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/internal/mesos/codec"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	schedulerv1 "github.com/tenderhq/tender/internal/mesos/v1/scheduler"
)

// What old clients were seen to write is read, and written back as Mesos writes it.
func TestReadsWhatClientsWrite(t *testing.T) {
	for _, test := range []struct{ name, in, out string }{
		{"nulls are absent", `{"type":"SUBSCRIBE","framework_id":null,"accept":null,
			"subscribe":{"framework_info":{"user":"u","name":"n","roles":null,"capabilities":[null]}}}`,
			`{"type":"SUBSCRIBE","subscribe":{"framework_info":{"user":"u","name":"n"}}}`},
		{"a single value is a list", `{"subscribe":{"framework_info":{"user":"u","name":"n","roles":"web","capabilities":{"type":"MULTI_ROLE"}}}}`,
			`{"subscribe":{"framework_info":{"user":"u","name":"n","capabilities":[{"type":"MULTI_ROLE"}],"roles":["web"]}}}`},
		{"numbers with exponents", `{"subscribe":{"framework_info":{"user":"u","name":"n","failover_timeout":3.6e+06}},
			"kill":{"task_id":{"value":"t"},"kill_policy":{"grace_period":{"nanoseconds":5e9}}}}`,
			`{"subscribe":{"framework_info":{"user":"u","name":"n","failover_timeout":3600000.0}},"kill":{"task_id":{"value":"t"},"kill_policy":{"grace_period":{"nanoseconds":5000000000}}}}`},
		{"64 bits as a string", `{"kill":{"task_id":{"value":"t"},"kill_policy":{"grace_period":{"nanoseconds":"9007199254740993"}}}}`,
			`{"kill":{"task_id":{"value":"t"},"kill_policy":{"grace_period":{"nanoseconds":9007199254740993}}}}`},
		{"unknown keys and names", `{"type":"NEVER_HEARD","novel":{"a":[{}]},"revive":{"roles":[]}}`, `{"revive":{}}`},
		{"truth as a string, and no bound", `{"accept":{"operations":{"launch":{"task_infos":{"name":"n","task_id":{"value":"t"},"agent_id":{"value":"a"},
			"command":{"shell":"false"},"limits":{"cpus":{"value":"Infinity"}}}}}}}`,
			`{"accept":{"operations":[{"launch":{"task_infos":[{"name":"n","task_id":{"value":"t"},"agent_id":{"value":"a"},"command":{"shell":false},"limits":{"cpus":{"value":"Infinity"}}}]}}]}}`},
		{"enums by number", `{"type":5}`, `{"type":"REVIVE"}`},
		{"bytes", `{"acknowledge":{"agent_id":{"value":"a"},"task_id":{"value":"t"},"uuid":"-_8"}}`,
			`{"acknowledge":{"agent_id":{"value":"a"},"task_id":{"value":"t"},"uuid":"+/8="}}`},
		{"maps", `{"subscribe":{"framework_info":{"user":"u","name":"n","offer_filters":{"b":{},"a":null,"*":{}}}}}`,
			`{"subscribe":{"framework_info":{"user":"u","name":"n","offer_filters":{"*":{},"b":{}}}}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var call schedulerv1.Call
			if err := codec.JSON.Unmarshal([]byte(test.in), &call); err != nil {
				t.Fatal(err)
			}
			if out := encode(t, codec.JSON, &call); out != test.out {
				t.Errorf("written as\n%s\nwant\n%s", out, test.out)
			}
		})
	}
}

// What can't be meant is refused with where it stands.
func TestRefuses(t *testing.T) {
	for in, want := range map[string]string{
		``:                             "unexpected EOF",
		`{"type":`:                     "unexpected EOF",
		`[]`:                           "expected a JSON object",
		`{} {}`:                        "more follows",
		`{"kill":{}}`:                  "Kill.task_id",
		`{"kill":{"task_id":"t"}}`:     "kill: task_id: expected a JSON object, got a JSON string",
		`{"type":true}`:                "type: did not expect a JSON boolean",
		`{"framework_id":{"value":7}}`: "framework_id: value: did not expect a JSON number for field 'value'",
		`{"acknowledge":{"uuid":"*"}}`: "illegal base64",
		`{"subscribe":{"framework_info":{"failover_timeout":"NaN"}}}`:               "no finite number",
		`{"kill":{"kill_policy":{"grace_period":{"nanoseconds":1e30}}}}`:            "no whole number",
		`{"accept":` + strings.Repeat(`{"x":[`, 6) + strings.Repeat(`]}`, 5) + `]}`: "unexpected EOF",
	} {
		err := codec.JSON.Unmarshal([]byte(in), &schedulerv1.Call{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
	deep := `{"container_id":` + strings.Repeat(`{"value":"c","parent":`, 100) + `null` + strings.Repeat(`}`, 101)
	if err := codec.JSON.Unmarshal([]byte(deep), &mesosv1.ContainerStatus{}); err == nil || !strings.Contains(err.Error(), "deep") {
		t.Errorf("deep nesting: %v", err)
	}
	if _, err := codec.JSON.Marshal(&mesosv1.Offer{}); err == nil {
		t.Error("an offer without its required fields was written")
	}
}

func TestMediaTypes(t *testing.T) {
	for _, test := range []struct {
		accept []string
		want   string
	}{
		{nil, "application/json"},
		{[]string{"application/x-protobuf"}, "application/x-protobuf"},
		{[]string{"application/x-protobuf", "application/json;q=1"}, "application/json"},
		{[]string{"text/html, application/x-protobuf"}, "application/x-protobuf"},
		{[]string{"*/*"}, "application/json"},
		{[]string{"text/html"}, ""},
	} {
		got, ok := codec.AnswerEncoding(http.Header{"Accept": test.accept})
		if said := told(got, ok); said != test.want {
			t.Errorf("%q: %s, want %s", test.accept, said, test.want)
		}
	}
	for content, want := range map[string]string{
		"application/json; charset=utf-8": "application/json",
		"application/x-protobuf":          "application/x-protobuf",
		"text/plain":                      "",
		"":                                "",
	} {
		got, ok := codec.RequestEncoding(http.Header{"Content-Type": {content}})
		if said := told(got, ok); said != want {
			t.Errorf("%q: %s, want %s", content, said, want)
		}
	}
}

func TestRecords(t *testing.T) {
	var stream bytes.Buffer
	for _, record := range []string{"one", "", "three\n"} {
		if err := codec.WriteRecord(&stream, []byte(record)); err != nil {
			t.Fatal(err)
		}
	}
	if got := stream.String(); got != "3\none0\n6\nthree\n" {
		t.Errorf("written as %q", got)
	}
	for in, want := range map[string]string{
		stream.String():           "one||three\n|EOF",
		"3\non":                   "unexpected EOF",
		"3":                       "unexpected EOF",
		"\n":                      "recordio: a record begins with its length in decimal digits and a newline",
		"-1\n":                    "recordio: a record begins with its length in decimal digits and a newline",
		"17\n":                    "recordio: a record of more than 16 bytes",
		strings.Repeat("0", 30):   "recordio: a record begins with its length in decimal digits and a newline",
		"99999999999999999999\nx": "recordio: a record of more than 16 bytes",
	} {
		if got := readAll(strings.NewReader(in)); got != want {
			t.Errorf("%q: read as %q, want %q", in, got, want)
		}
	}
}

func readAll(in io.Reader) string {
	r := codec.NewRecordReader(in, 16)
	var got []string
	for {
		record, err := r.Next()
		if err != nil {
			return strings.Join(append(got, err.Error()), "|")
		}
		got = append(got, string(record))
	}
}

func told(e codec.Encoding, ok bool) string {
	if !ok {
		return ""
	}
	return e.ContentType()
}

func encode(t *testing.T, e codec.Encoding, m proto.Message) string {
	t.Helper()
	data, err := e.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
