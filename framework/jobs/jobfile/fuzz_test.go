package jobfile_test

import (
	"reflect"
	"testing"

	"github.com/tenderhq/tender/framework/jobs/jobfile"
)

// FuzzJSON: whatever a file of a job contains, it is read as a job or refused with a sentence; and a job that was read
// is the same when it is written and read again.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{
		`{"id":"hello","type":"batch","count":3,"task":{"command":"echo hello","resources":{"cpus":0.1,"mem":32}}}`,
		`{"id":"tick","type":"cron","schedule":"*/5 * * * *","timeZone":"Europe/Berlin","task":{"command":"true"}}`,
		`{"id":"web","type":"service","count":2,"task":{"command":"serve","ports":["http"],"check":{"http":"/"}}}`,
		`{"id":1,"task":[],"count":"x"}`, `[`, `null`, `{"id":"a","id":"b"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		job, err := jobfile.DecodeJSON(text)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("it is refused without a word")
			}
			return
		}
		tree, err := jobfile.Encode(job)
		if err != nil {
			t.Fatalf("it is read and can't be written: %v", err)
		}
		again, err := jobfile.Decode(tree)
		if err != nil || !reflect.DeepEqual(again, job) {
			t.Fatalf("it is read as %+v, and again as %+v: %v", job, again, err)
		}
	})
}
