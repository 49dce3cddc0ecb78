package value

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"reflect"
	"slices"
	"strings"
)

// Text writes a value for people, one line for each part that is not zero. Fields come in their order, and the entries
// of a map in the order of their printed keys. A value that has a String method is printed by it. For a pointer to
// something that was printed before, the text names the place where that was. Values with different texts differ.
func Text(of any) string {
	if of == nil {
		return "nil\n"
	}
	place := reflect.New(reflect.TypeOf(of)).Elem()
	place.Set(reflect.ValueOf(of))
	p := &printer{seen: map[reference]string{}}
	p.print(place, "")
	return p.text.String()
}

type printer struct {
	text strings.Builder
	seen map[reference]string
}

func (p *printer) line(path, text string) {
	if path == "" {
		path = "value"
	}
	fmt.Fprintf(&p.text, "%s = %s\n", strings.TrimPrefix(path, "."), text)
}

// print writes the value at an addressable place.
func (p *printer) print(of reflect.Value, path string) {
	if of.IsZero() {
		return
	}
	if stringer, is := of.Interface().(fmt.Stringer); is && of.Kind() != reflect.Pointer {
		p.line(path, stringer.String())
		return
	}
	switch of.Kind() {
	case reflect.Pointer:
		p.pointer(of, path)
	case reflect.Interface:
		p.print(addressable(of.Elem()), path+"."+of.Elem().Type().Name())
	case reflect.Struct:
		for i := range of.NumField() {
			p.print(opened(of.Field(i)), path+"."+of.Type().Field(i).Name)
		}
	case reflect.Map:
		p.entries(of, path)
	case reflect.Slice, reflect.Array:
		if of.Type().Elem().Kind() == reflect.Uint8 {
			data := of.Bytes()
			p.line(path, fmt.Sprintf("%d bytes %.64q, checksum %08x", len(data), data, crc32.ChecksumIEEE(data)))
			return
		}
		for i := range of.Len() {
			p.item(of.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	default:
		refuse(of.Kind(), path)
		p.line(path, fmt.Sprintf("%v", of))
	}
}

// item prints an entry of a list or a map. A zero value is printed too, because that it is there matters.
func (p *printer) item(of reflect.Value, path string) {
	if of.IsZero() {
		p.line(path, "zero")
		return
	}
	p.print(of, path)
}

func (p *printer) pointer(of reflect.Value, path string) {
	key := reference{of.UnsafePointer(), of.Type(), 0}
	if first, is := p.seen[key]; is {
		p.line(path, "the same as "+cmp.Or(strings.TrimPrefix(first, "."), "value"))
		return
	}
	p.seen[key] = path
	if of.Elem().IsZero() {
		p.line(path, "zero")
		return
	}
	p.print(of.Elem(), path)
}

func (p *printer) entries(of reflect.Value, path string) {
	type entry struct {
		key  string
		item reflect.Value
	}
	var entries []entry
	for all := of.MapRange(); all.Next(); {
		entries = append(entries, entry{fmt.Sprintf("%v", all.Key()), addressable(all.Value())})
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	for _, e := range entries {
		p.item(e.item, path+"["+e.key+"]")
	}
}

func addressable(of reflect.Value) reflect.Value {
	place := reflect.New(of.Type()).Elem()
	place.Set(of)
	return place
}
