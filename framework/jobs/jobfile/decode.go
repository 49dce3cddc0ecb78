package jobfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/internal/rules"
	"github.com/tenderhq/tender/internal/words"
)

// schemaKey names the schema of a file for its editor; it is no part of the job.
const schemaKey = "$schema"

// Decode makes a job from a tree, and checks it. Its error is of type [jobs.Problems]. What the tree does not have is
// left to its default; a zero or an empty text that it has is refused where it does not mean what it says.
func Decode(tree map[string]any) (job jobs.Job, err error) {
	var d decoder
	if _, is := tree[schemaKey]; is {
		tree = maps.Clone(tree)
		delete(tree, schemaKey)
	}
	d.object(reflect.ValueOf(&job).Elem(), tree, "")
	if len(d.found) > 0 {
		return job, d.found
	}
	return job, job.Check()
}

// DecodeJSON makes a job from JSON text, and checks it.
func DecodeJSON(text []byte) (job jobs.Job, err error) {
	tree, err := ParseJSON(text)
	if err != nil {
		return job, err
	}
	return Decode(tree)
}

// Mark is the byte order mark with which some editors begin a file. It says nothing.
const Mark = "\ufeff"

// ParseJSON reads one JSON object as a tree. A key that is there twice is an error, of type [jobs.Problems].
func ParseJSON(text []byte) (tree map[string]any, err error) {
	text = bytes.TrimPrefix(text, []byte(Mark))
	reader := json.NewDecoder(bytes.NewReader(text))
	if err := reader.Decode(&tree); err != nil {
		return nil, err
	}
	if _, err := reader.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is more behind the job; a file holds one")
	}
	var twice jobs.Problems
	findTwice(json.NewDecoder(bytes.NewReader(text)), "", &twice)
	if len(twice) > 0 {
		return nil, twice
	}
	return tree, nil
}

// findTwice reads a value of a text that is known to be JSON, and reports the keys that an object has twice.
func findTwice(reader *json.Decoder, field string, twice *jobs.Problems) {
	token, err := reader.Token()
	if err != nil {
		return
	}
	switch token {
	case json.Delim('{'):
		known := make(map[string]bool)
		for reader.More() {
			key, _ := reader.Token()
			name := fmt.Sprint(key)
			if known[name] {
				*twice = append(*twice, jobs.Problem{Field: below(field, name), Why: "it is there twice; leave one out"})
			}
			known[name] = true
			findTwice(reader, below(field, name), twice)
		}
	case json.Delim('['):
		for i := 0; reader.More(); i++ {
			findTwice(reader, fmt.Sprintf("%s[%d]", field, i), twice)
		}
	default:
		return
	}
	_, _ = reader.Token() // the end, which is there because the text is JSON
}

// Encode returns the job as a tree, without the fields that are left to their defaults.
func Encode(job jobs.Job) (tree map[string]any, err error) {
	text, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &tree)
	return tree, err
}

// decoder collects everything that is wrong.
type decoder struct{ found jobs.Problems }

func (d *decoder) wrong(field, format string, values ...any) {
	d.found = append(d.found, jobs.Problem{Field: field, Why: fmt.Sprintf(format, values...)})
}

func below(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

func (d *decoder) object(into reflect.Value, tree map[string]any, field string) {
	names, known := rules.Fields(into.Type())
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		member, is := known[name]
		if !is {
			d.unknown(below(field, name), name, names)
			continue
		}
		before := len(d.found)
		d.value(into.FieldByIndex(member.Index), tree[name], below(field, name))
		if len(d.found) == before {
			d.given(into.FieldByIndex(member.Index), rules.Of(member), below(field, name))
		}
	}
}

// given refuses a zero or an empty text that was written, where it would be taken for one that was left out.
func (d *decoder) given(value reflect.Value, rule rules.Rule, field string) {
	if value.Kind() == reflect.Pointer || !value.IsZero() {
		return // a pointer tells zero from nothing
	}
	switch why := rule.Wrong(value); {
	case value.Kind() == reflect.String:
		d.wrong(field, "it is empty; write a text, or leave it out")
	case why != "" && rule.Required:
		d.wrong(field, "%s", why)
	case why != "":
		d.wrong(field, "%s, or leave it out", why)
	}
}

func (d *decoder) unknown(field, name string, known []string) {
	if closest := words.Closest(name, known); closest != "" {
		d.wrong(field, "there is no such field; did you mean %q?", closest)
		return
	}
	d.wrong(field, "there is no such field; here are %s", strings.Join(known, ", "))
}

var (
	durationType = reflect.TypeFor[jobs.Duration]()
	matchType    = reflect.TypeFor[jobs.Match]()
)

func (d *decoder) value(into reflect.Value, from any, field string) {
	switch {
	case into.Type() == durationType:
		d.duration(into, from, field)
	case into.Type() == matchType:
		d.match(into, from, field)
	case into.Kind() == reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		d.value(into.Elem(), from, field)
	case into.Kind() == reflect.Struct:
		if tree, is := from.(map[string]any); is {
			d.object(into, tree, field)
		} else {
			d.wrong(field, "it is %v; it must be a table of its own fields", from)
		}
	case into.Kind() == reflect.Map:
		d.words(into, from, field)
	case into.Kind() == reflect.Slice:
		d.list(into, from, field)
	default:
		d.plain(into, from, field)
	}
}

func (d *decoder) match(into reflect.Value, from any, field string) {
	match, is := jobs.MatchOf(from)
	if !is {
		d.wrong(field, "it is %v; %s", shown(from), jobs.MatchForm)
		return
	}
	into.Set(reflect.ValueOf(match))
}

func (d *decoder) duration(into reflect.Value, from any, field string) {
	text, is := from.(string)
	span, err := time.ParseDuration(text)
	if !is || err != nil || !durationForm.MatchString(text) {
		d.wrong(field, "it is %v; write a time such as \"30s\" or \"1h30m\"", shown(from))
		return
	}
	into.SetInt(int64(span))
}

// shown returns a value as it looks in a file.
func shown(from any) string {
	text, err := json.Marshal(from)
	if err != nil {
		return fmt.Sprint(from)
	}
	return string(text)
}

func (d *decoder) words(into reflect.Value, from any, field string) {
	tree, is := from.(map[string]any)
	if !is {
		d.wrong(field, "it is %v; it must be a table of names and texts", shown(from))
		return
	}
	into.Set(reflect.MakeMap(into.Type()))
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		value := reflect.New(into.Type().Elem()).Elem()
		d.value(value, tree[name], below(field, name))
		into.SetMapIndex(reflect.ValueOf(name), value)
	}
}

func (d *decoder) list(into reflect.Value, from any, field string) {
	items, is := asList(from)
	if !is {
		d.wrong(field, "it is %v; it must be a list", shown(from))
		return
	}
	list := reflect.MakeSlice(into.Type(), len(items), len(items))
	for i, item := range items {
		d.value(list.Index(i), item, fmt.Sprintf("%s[%d]", field, i))
	}
	into.Set(list)
}

// asList returns a list's items. TOML readers use a type of their own for lists of tables.
func asList(from any) (items []any, is bool) {
	switch from := from.(type) {
	case []any:
		return from, true
	case []map[string]any:
		for _, table := range from {
			items = append(items, table)
		}
		return items, true
	}
	return nil, false
}

func (d *decoder) plain(into reflect.Value, from any, field string) {
	switch into.Kind() {
	case reflect.String:
		if text, is := from.(string); is {
			into.SetString(text)
			return
		}
		d.wrong(field, "it is %v; it must be a text, in quotes", shown(from))
	case reflect.Bool:
		if yes, is := from.(bool); is {
			into.SetBool(yes)
			return
		}
		d.wrong(field, "it is %v; it must be true or false", shown(from))
	case reflect.Int:
		if n, is := asNumber(from); is && n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			into.SetInt(int64(n))
			return
		}
		d.wrong(field, "it is %v; it must be a whole number", shown(from))
	default:
		n, is := asNumber(from)
		if is && !math.IsNaN(n) && !math.IsInf(n, 0) {
			into.SetFloat(n)
			return
		}
		d.wrong(field, "it is %v; it must be a number", shown(from))
	}
}

func asNumber(from any) (n float64, is bool) {
	switch from := from.(type) {
	case float64:
		return from, true
	case int64:
		return float64(from), true
	}
	return 0, false
}
