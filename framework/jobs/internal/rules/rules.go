// Package rules reads what a field of a job may hold from the field's tag "rule". By one tag a job is checked, its file
// is read, and the schema for editors is made, so that the three agree. It knows nothing of what the fields mean.
//
// A tag is a list of words:
//
//	required     the field has no default
//	1..100       a number within these bounds
//	amount       a number of a resource, in thousandths
//	zero         behind amount: 0 means the same as nothing
//	positive     a time longer than none
//	a|b|c        one of these texts
//	name         letters, digits, '-' and '_', at most 63 bytes
//	most=8       at most so many items
//	needs=x      the field says nothing without the field x beside it, unless it is zero or the first of its texts
package rules

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Rule is what a tag says.
type Rule struct {
	Required bool
	// Number bounds a number; nil: any.
	Number *Range
	// Positive: a time is longer than none.
	Positive bool
	// Words are the texts that are allowed; empty: any.
	Words []string
	// Name: a text is a name.
	Name bool
	// ItemsMax bounds a list; 0: no bound.
	ItemsMax int
	// Needs is the name of the field without which this one says nothing; "": there is none.
	Needs string
}

// Range are the bounds of a number, both included.
type Range struct {
	Least, Most float64
	// Fine: the number is an amount, a whole number of thousandths.
	Fine bool
	// Zero: 0 is allowed beside the bounds, and means the same as nothing.
	Zero bool
}

// The bounds of an amount: a thousandth, and the largest that masters count with.
const (
	AmountMin = 0.001
	AmountMax = 1e9
)

// Fields returns the names of a struct's fields as job files have them, including those of embedded structs.
func Fields(of reflect.Type) (names []string, byName map[string]reflect.StructField) {
	byName = make(map[string]reflect.StructField)
	for _, field := range reflect.VisibleFields(of) {
		if field.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
		byName[name] = field
	}
	return names, byName
}

// Of returns the rule of a field. A tag that can't be read is our mistake, and panics.
func Of(field reflect.StructField) (r Rule) {
	for word := range strings.FieldsSeq(field.Tag.Get("rule")) {
		least, most, ranged := strings.Cut(word, "..")
		items, bounded := strings.CutPrefix(word, "most=")
		other, needs := strings.CutPrefix(word, "needs=")
		switch {
		case word == "required":
			r.Required = true
		case word == "zero" && r.Number != nil:
			r.Number.Zero = true
		case word == "positive":
			r.Positive = true
		case word == "name":
			r.Name = true
		case word == "amount":
			r.Number = &Range{Least: AmountMin, Most: AmountMax, Fine: true}
		case ranged:
			r.Number = &Range{Least: number(least), Most: number(most)}
		case bounded:
			r.ItemsMax = int(number(items))
		case needs:
			r.Needs = other
		case strings.Contains(word, "|"):
			r.Words = strings.Split(word, "|")
		default:
			panic(fmt.Sprintf("the tag of %s has %q, which is no rule", field.Name, word))
		}
	}
	return r
}

func number(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// Wrong says what is wrong with a value, and what would be right; "": nothing. Whether it was given at all is not
// looked at: a zero is judged like any other value.
func (r Rule) Wrong(value reflect.Value) string {
	switch value.Kind() {
	case reflect.Pointer:
		if value.IsNil() {
			return ""
		}
		return r.Wrong(value.Elem())
	case reflect.Int:
		return r.wrongNumber(float64(value.Int()), fmt.Sprint(value.Int()))
	case reflect.Float64:
		return r.wrongNumber(value.Float(), fmt.Sprint(value.Float()))
	case reflect.Int64:
		if r.Positive && value.Int() <= 0 {
			return fmt.Sprintf("it is %v; write a time such as \"30s\"", time.Duration(value.Int()))
		}
	case reflect.String:
		return r.wrongText(value.String())
	case reflect.Slice:
		if r.ItemsMax > 0 && value.Len() > r.ItemsMax {
			return fmt.Sprintf("there are %d; at most %d are allowed", value.Len(), r.ItemsMax)
		}
	}
	return ""
}

func (r Rule) wrongNumber(n float64, shown string) string {
	switch {
	case r.Number == nil || r.Number.Zero && n == 0:
		return ""
	case r.Number.Fine && n < 0:
		return fmt.Sprintf("it is %s; it can't be negative", shown)
	case math.IsNaN(n) || n < r.Number.Least || n > r.Number.Most:
		return fmt.Sprintf("it is %s; write %s to %s", shown, plain(r.Number.Least), plain(r.Number.Most))
	case r.Number.Fine && math.Abs(n*1000-math.Round(n*1000)) > 1e-6*math.Max(1, n):
		return fmt.Sprintf("it is %s; it is counted in thousandths, so write three digits behind the point at most", shown)
	}
	return ""
}

// WrongAlone says that a value means nothing, as the field that it needs has this value; "": it does not need it, or the
// field says something.
func (r Rule) WrongAlone(value, other reflect.Value) string {
	if r.Needs == "" || value.IsZero() || len(r.Words) > 0 && value.String() == r.Words[0] {
		return ""
	}
	if !other.IsZero() && (other.Kind() != reflect.Slice || other.Len() > 0) {
		return ""
	}
	return fmt.Sprintf("it says nothing without %q; write that too, or leave this one out", r.Needs)
}

func plain(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func (r Rule) wrongText(text string) string {
	if len(r.Words) == 0 {
		return ""
	}
	for _, word := range r.Words {
		if text == word {
			return ""
		}
	}
	last := len(r.Words) - 1
	return fmt.Sprintf("it is %q; write %s or %s", text, strings.Join(r.Words[:last], ", "), r.Words[last])
}
