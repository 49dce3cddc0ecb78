package registry

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// print writes down everything in a state but Index: two that print alike are alike.
func (s *State) print() string {
	var text strings.Builder
	copied := *s
	copied.Index, copied.Format = 0, s.format()
	printValue(&text, reflect.ValueOf(copied))
	return text.String()
}

func printValue(text *strings.Builder, v reflect.Value) {
	switch {
	case v.Type().Implements(reflect.TypeFor[fmt.Stringer]()), v.Type().Implements(reflect.TypeFor[error]()):
		fmt.Fprintf(text, "%v ", v.Interface())
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				printValue(text, v.Field(i))
			}
		}
	case v.Kind() == reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
		fmt.Fprintf(text, "%d:", len(keys))
		for _, key := range keys {
			fmt.Fprintf(text, "%q=", key.String())
			printValue(text, v.MapIndex(key))
		}
	case v.Kind() == reflect.Slice:
		fmt.Fprintf(text, "%d:", v.Len())
		for i := range v.Len() {
			printValue(text, v.Index(i))
		}
	case v.Kind() == reflect.String:
		fmt.Fprintf(text, "%q ", v.String())
	default:
		fmt.Fprintf(text, "%v ", v.Interface())
	}
}
