package rdd

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// plainTypes are those that are no parts of others; the first few can be keys of maps that are compared by their keys.
var plainTypes = []reflect.Type{
	reflect.TypeFor[string](), reflect.TypeFor[int8](), reflect.TypeFor[uint64](), reflect.TypeFor[bool](), reflect.TypeFor[float32](),
	reflect.TypeFor[float64](), reflect.TypeFor[byte](), reflect.TypeFor[int](), reflect.TypeFor[complex64](), reflect.TypeFor[uint16](),
}

// drawType draws a type of which elements can be.
func drawType(t *rapid.T, depth int) reflect.Type {
	switch made := rapid.IntRange(0, 4).Draw(t, "made"); {
	case depth > 0 && made == 1:
		return reflect.SliceOf(drawType(t, depth-1))
	case depth > 0 && made == 2:
		return reflect.ArrayOf(rapid.IntRange(0, 3).Draw(t, "length"), drawType(t, depth-1))
	case depth > 0 && made == 3:
		return reflect.MapOf(rapid.SampledFrom(plainTypes[:4]).Draw(t, "key"), drawType(t, depth-1))
	case depth > 0 && made == 4:
		var fields []reflect.StructField
		for i := range rapid.IntRange(0, 4).Draw(t, "fields") {
			fields = append(fields, reflect.StructField{Name: fmt.Sprint("F", i), Type: drawType(t, depth-1)})
		}
		return reflect.StructOf(fields)
	}
	return rapid.SampledFrom(plainTypes).Draw(t, "plain")
}

// fill draws a value: nil and empty slices and maps, and every number that there is, -0 and all NaNs among them.
func fill(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Slice:
		if n := rapid.IntRange(-1, 3).Draw(t, "length"); n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Map:
		if n := rapid.IntRange(-1, 2).Draw(t, "length"); n >= 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				fill(t, key)
				fill(t, value)
				v.SetMapIndex(key, value)
			}
		}
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.String(), rapid.Just("\xff\x00")).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	default:
		special := rapid.SampledFrom([]uint64{0, 1 << 63, 1 << 31, 0x7ff0000000000001, 0x7f800001, math.Float64bits(math.Inf(1))})
		bits := rapid.OneOf(rapid.Uint64(), special).Draw(t, "bits")
		v.Set(reflect.NewAt(v.Type(), reflect.ValueOf(&[2]uint64{bits, bits}).UnsafePointer()).Elem())
	}
}

// SameBits, which is here for both packages of tests, compares floats by their bits; cmp takes -0 for 0, and no NaN for another, not even for itself.
var SameBits = cmp.Options{
	cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	cmp.Comparer(func(a, b complex64) bool {
		return math.Float32bits(real(a)) == math.Float32bits(real(b)) && math.Float32bits(imag(a)) == math.Float32bits(imag(b))
	}),
}

// TestGeneratedTypesAreCarriedToTheLastBit, whatever they are made of.
func TestGeneratedTypesAreCarriedToTheLastBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := drawType(t, 3)
		if err := carried(of, "it"); err != nil {
			t.Fatal(err)
		}
		in, out := reflect.New(of).Elem(), reflect.New(of).Elem()
		fill(t, in)
		var way bytes.Buffer
		(&cargo{move: func(held []byte) { way.Write(held) }}).walk(in)
		(&cargo{reads: true, move: func(held []byte) {
			if _, err := io.ReadFull(&way, held); err != nil {
				t.Fatal(err)
			}
		}}).walk(out)
		if diff := cmp.Diff(in.Interface(), out.Interface(), SameBits); diff != "" || way.Len() > 0 {
			t.Fatalf("a %v went in as (-) and came out as (+), and %d bytes are left:\n%s", of, way.Len(), diff)
		}
	})
}
