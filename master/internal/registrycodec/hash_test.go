package registrycodec

import (
	"reflect"
	"testing"
)

// TestHashSeesEveryField changes one field after the other of a full state.
func TestHashSeesEveryField(t *testing.T) {
	seen, was := map[string]string{}, Hash(full())
	for path := range leaves(reflect.ValueOf(full()), "") {
		s := full()
		change(reflect.ValueOf(s).Elem(), path)
		hash := Hash(s)
		switch path {
		case ".Index":
			if hash != was {
				t.Error("the index is hashed; a restored snapshot has another one")
			}
			continue
		case ".Frameworks[k].StoreSize": // the sum of what is in the store
			continue
		}
		if hash == was {
			t.Errorf("%s is not hashed", path)
		}
		if other, twice := seen[hash]; twice {
			t.Errorf("%s and %s have one hash", path, other)
		}
		seen[hash] = path
	}
	if len(seen) < 50 {
		t.Errorf("only %d fields were changed", len(seen))
	}
}
