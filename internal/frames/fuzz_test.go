package frames_test

import (
	"bytes"
	"testing"

	"github.com/tenderhq/tender/internal/frames"
)

// FuzzRead: whatever comes over a connection into a task, it is read as frames of a bounded size, or ends it.
func FuzzRead(f *testing.F) {
	var sent bytes.Buffer
	out := frames.NewWriter(&sent)
	if err := out.Write(1, []byte("ls")); err != nil {
		f.Fatal(err)
	}
	if err := out.WriteSize(24, 80); err != nil {
		f.Fatal(err)
	}
	f.Add(sent.Bytes())
	f.Add([]byte{1, 255, 255, 255, 255, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		from := bytes.NewReader(data)
		for {
			_, content, err := frames.Read(from)
			if err != nil {
				return
			}
			if len(content) > len(data) {
				t.Fatalf("a frame of %d bytes is in %d", len(content), len(data))
			}
		}
	})
}
