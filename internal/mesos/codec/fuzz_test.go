package codec_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/internal/mesos/codec"
	schedulerv1 "github.com/tenderhq/tender/internal/mesos/v1/scheduler"
)

// FuzzJSON: whatever is read as JSON is written so that it is read as the same, in both encodings.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"type":"ACCEPT","accept":{"offer_ids":{"value":"o"},"operations":[{"type":"LAUNCH","launch":{"task_infos":[
		{"name":"t","task_id":{"value":"t"},"agent_id":{"value":"a"},"resources":[{"name":"ports","type":"RANGES","ranges":{"range":[{"begin":1,"end":2e3}]}}],
		"data":"AAE="}]}}],"filters":{"refuse_seconds":5}}}`))
	f.Add([]byte(`{"subscribe":{"framework_info":{"user":"u","name":"n","offer_filters":{"*":{}}}},"novel":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) { isKept(t, codec.JSON, data) })
}

// FuzzProtobuf: the same for what is read as protobuf.
func FuzzProtobuf(f *testing.F) {
	call := &schedulerv1.Call{}
	if err := codec.JSON.Unmarshal([]byte(`{"type":"KILL","kill":{"task_id":{"value":"t"},"kill_policy":{"grace_period":{"nanoseconds":5}}}}`), call); err != nil {
		f.Fatal(err)
	}
	seed, err := proto.Marshal(call)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) { isKept(t, codec.Protobuf, data) })
}

func isKept(t *testing.T, from codec.Encoding, data []byte) {
	first := &schedulerv1.Call{}
	if from.Unmarshal(data, first) != nil {
		return
	}
	written, err := codec.JSON.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsAny(written, "\n\r") {
		t.Fatalf("a record of more than one line: %q", written)
	}
	second := &schedulerv1.Call{}
	if err := codec.JSON.Unmarshal(written, second); err != nil {
		t.Fatalf("%v in %s", err, written)
	}
	again, err := codec.JSON.Marshal(second)
	if err != nil || !bytes.Equal(written, again) {
		t.Fatalf("%s was read as %s (%v)", written, again, err)
	}
}

// FuzzRecords: a reader of records never returns more than it may, and reads what was written.
func FuzzRecords(f *testing.F) {
	f.Add([]byte("3\none0\n"))
	f.Add([]byte("99999999999999999999\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		const most = 64
		in := bytes.NewReader(data)
		r := codec.NewRecordReader(in, most)
		var written bytes.Buffer
		for {
			record, err := r.Next()
			if err != nil {
				if errors.Is(err, io.EOF) && len(data) > 0 && written.Len() > len(data) {
					t.Fatalf("%d bytes were read as %d", len(data), written.Len())
				}
				return
			}
			if len(record) > most {
				t.Fatalf("a record of %d bytes", len(record))
			}
			if err := codec.WriteRecord(&written, record); err != nil {
				t.Fatal(err)
			}
		}
	})
}
