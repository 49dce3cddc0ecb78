package registrycodec

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

// full returns a state in which every field is set: a new field of any type makes fillAnew fail or shows up in
// TestHashSeesEveryField.
func full() *registry.State {
	s := &registry.State{}
	fillAnew(reflect.ValueOf(s).Elem(), new(int))
	s.Format = registry.Format
	return s
}

// fillAnew sets every exported field to something that no other field has.
func fillAnew(v reflect.Value, count *int) {
	*count++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(int64(*count), 7).UTC()))
		return
	case api.Resources:
		v.Set(reflect.ValueOf(resources(*count)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("s", *count))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*count))
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(uint64(*count))
	case reflect.Float64:
		v.SetFloat(float64(*count))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillAnew(v.Elem(), count)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillAnew(v.Field(i), count)
			}
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillAnew(value, count)
		key.SetString("k")
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillAnew(v.Index(0), count)
	case reflect.Interface: // only error
		v.Set(reflect.ValueOf(errors.New(fmt.Sprint("e", *count))))
	default:
		panic(fmt.Sprintf("fillAnew knows no %v", v.Type()))
	}
}

func resources(n int) api.Resources {
	return api.NewResources(
		api.Resource{Label: api.Label{Name: "cpus"}, Scalar: api.Milli(n)},
		api.Resource{Label: api.Label{Name: "disk", Reserved: "eng", Dynamic: true, Volume: "v"}, Scalar: 5},
		api.Resource{Label: api.Label{Name: "gpus", Revocable: true}, Set: api.NewSet("a", "b")},
		api.Resource{Label: api.Label{Name: "ports"}, Ranges: api.NewRanges(api.Range{Begin: 1, End: 2})},
	)
}

// leaves yields the path of every field that change can change.
func leaves(v reflect.Value, path string) iter.Seq[string] {
	return func(yield func(string) bool) { walkLeaves(v, path, yield) }
}

func walkLeaves(v reflect.Value, path string, yield func(string) bool) bool {
	if v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface && path == "" {
		return walkLeaves(v.Elem(), path, yield)
	}
	switch v.Interface().(type) {
	case time.Time, api.Resources:
		return yield(path)
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			// The map's key repeats these two.
			if field.IsExported() && !walkLeaves(v.Field(i), path+"."+field.Name, yield) {
				return false
			}
		}
		return true
	case reflect.Map:
		return walkLeaves(v.MapIndex(reflect.ValueOf("k").Convert(v.Type().Key())), path+"[k]", yield)
	case reflect.Slice:
		return walkLeaves(v.Index(0), path+"[0]", yield)
	}
	return yield(path)
}

// change gives the field at the path another value.
func change(v reflect.Value, path string) {
	if v.Kind() == reflect.Pointer {
		change(v.Elem(), path)
		return
	}
	switch {
	case path == "":
		fillAnew(v, &counters)
		if v.Kind() == reflect.Bool {
			v.SetBool(false)
		}
	case path[0] == '.':
		name := path[1:]
		if end := strings.IndexAny(name, ".["); end >= 0 {
			name = name[:end]
		}
		change(v.FieldByName(name), path[1+len(name):])
	case strings.HasPrefix(path, "[0]"):
		change(v.Index(0), path[3:])
	default:
		key := reflect.ValueOf("k").Convert(v.Type().Key())
		value := reflect.New(v.Type().Elem()).Elem()
		value.Set(v.MapIndex(key))
		change(value, path[3:])
		v.SetMapIndex(key, value)
	}
}

// counters makes each changed value one that full does not have.
var counters = 100
