package wire_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/wire"
)

// TestEveryFieldOfAFramework: each field is sent and stored, shown to people, and compared by Equal. A field that is
// added to api.Framework fails here until all of these handle it.
func TestEveryFieldOfAFramework(t *testing.T) {
	kind := reflect.TypeFor[api.Framework]()
	for i := range kind.NumField() {
		name := kind.Field(i).Name
		said, none := api.Framework{}, api.Framework{}
		field := reflect.ValueOf(&said).Elem().Field(i)
		switch value := field.Addr().Interface().(type) {
		case *api.Resources:
			*value = api.Scalars(1, 2)
		case *[]api.Role:
			*value = []api.Role{"r"}
		case *map[string]string:
			*value = map[string]string{"a": "b"}
		case *time.Duration:
			*value = time.Second
		case *bool:
			*value = true
		default:
			if field.Kind() != reflect.String {
				t.Fatalf("the test knows no %v, the type of %s", field.Type(), name)
			}
			field.SetString("x")
		}
		if read := wire.FrameworkOf(wire.FrameworkToProto(said)); cmp.Diff(said, read) != "" {
			t.Errorf("%s is lost in its message: %s", name, cmp.Diff(said, read))
		}
		if cmp.Equal(shown(said), shown(none)) {
			t.Errorf("%s is not shown", name)
		}
		if said.Equal(&none) {
			t.Errorf("two frameworks of different %s are equal", name)
		}
	}
}

func shown(f api.Framework) string { return wire.FrameworkView(f).String() }
