package journal_test

import (
	"bytes"
	"testing"

	"github.com/tenderhq/tender/allocator/journal"
)

// FuzzRead: whatever a journal contains, it is read as far as it is whole.
func FuzzRead(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("TNDRJRN1\x00\x00\x00\x04abcd"))
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, err := journal.Whole(bytes.NewReader(data))
		if err == nil && (whole < 0 || whole > int64(len(data))) {
			t.Fatalf("%d bytes of %d are whole", whole, len(data))
		}
		_, _, _ = journal.Read(bytes.NewReader(data))
	})
}
