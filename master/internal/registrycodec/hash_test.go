package registrycodec

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tenderhq/tender/master/registry"
)

// TestHashSeesEveryField changes one field after the other of a full state, in the newest format
// and in the one whose hash is frozen.
func TestHashSeesEveryField(t *testing.T) {
	for _, format := range []uint64{registry.FormatBounded, registry.Format} {
		seen, was := map[string]string{}, Hash(full(format))
		for path := range leaves(reflect.ValueOf(full(format)), "") {
			if isNewer(path, format) || format < registry.FormatTrust && strings.HasPrefix(path, ".Guarded") {
				continue // no registry of that format holds any
			}
			s := full(format)
			change(reflect.ValueOf(s).Elem(), path)
			hash := Hash(s)
			switch path {
			case ".Index":
				if hash != was {
					t.Errorf("format %d: the index is hashed; a restored snapshot has another one", format)
				}
				continue
			case ".Frameworks[k].StoreSize": // the sum of what is in the store
				continue
			}
			if hash == was {
				t.Errorf("format %d: %s is not hashed", format, path)
			}
			if other, twice := seen[hash]; twice {
				t.Errorf("format %d: %s and %s have one hash", format, path, other)
			}
			seen[hash] = path
		}
		if len(seen) < 50 {
			t.Errorf("format %d: only %d fields were changed", format, len(seen))
		}
	}
}

// isNewer says whether a newer format has brought a field, or what it is in.
func isNewer(path string, format uint64) bool {
	return slices.ContainsFunc(strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }), func(name string) bool {
		return newer[name] > format
	})
}
