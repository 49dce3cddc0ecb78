package api

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseResources reads the notation of [Resources.String]:
//
//	cpus:4;mem:1024;ports:[31000-31009,32000];zones:{a,b};cpus(eng):2
//
// A name may carry a role in brackets: reserved for it. The error names the part
// that is wrong and what would be right.
func ParseResources(text string) (Resources, error) {
	var items []Resource
	for part := range strings.SplitSeq(text, ";") {
		part = strings.TrimSpace(part)
		if part == "" || part == "nothing" {
			continue
		}
		item, err := parseResource(part)
		if err != nil {
			return Resources{}, fmt.Errorf("resources %q: %w", part, err)
		}
		items = append(items, item)
	}
	all := NewResources(items...)
	if err := all.Check(); err != nil {
		return Resources{}, err
	}
	return all, nil
}

// MustParseResources is [ParseResources] for constants of a program, such as what its tasks need: it panics if the text is
// wrong.
func MustParseResources(text string) Resources {
	resources, err := ParseResources(text)
	if err != nil {
		panic(err)
	}
	return resources
}

func parseResource(part string) (Resource, error) {
	head, amount, ok := strings.Cut(part, ":")
	if !ok {
		return Resource{}, fmt.Errorf("write NAME:AMOUNT, such as cpus:4 or ports:[31000-32000]")
	}
	label, err := parseLabel(strings.TrimSpace(head))
	if err != nil {
		return Resource{}, err
	}
	item := Resource{Label: label}
	amount = strings.TrimSpace(amount)
	switch {
	case strings.HasPrefix(amount, "["):
		item.Ranges, err = parseRanges(amount)
	case strings.HasPrefix(amount, "{"):
		item.Set, err = parseSet(amount)
	default:
		item.Scalar, err = ParseMilli(amount)
	}
	return item, err
}

func parseLabel(head string) (Label, error) {
	name, tags, ok := strings.Cut(head, "(")
	label := Label{Name: name}
	if !ok {
		return label, nil
	}
	if !strings.HasSuffix(tags, ")") {
		return label, fmt.Errorf("%q lacks its closing bracket", head)
	}
	for tag := range strings.SplitSeq(strings.TrimSuffix(tags, ")"), ",") {
		switch tag = strings.TrimSpace(tag); {
		case tag == "":
			return label, fmt.Errorf("%q has an empty label; write a role, \"revocable\" or leave the brackets out", head)
		case tag == "dynamic":
			label.Dynamic = true
		case tag == "revocable":
			label.Revocable = true
		case strings.HasPrefix(tag, "volume="):
			label.Volume = VolumeID(strings.TrimPrefix(tag, "volume="))
		case strings.HasPrefix(tag, "tag="):
			label.Tag = strings.TrimPrefix(tag, "tag=")
		case label.Reserved != "":
			return label, fmt.Errorf("%q names two roles; resources are reserved for one", head)
		default:
			label.Reserved = Role(tag)
			if err := label.Reserved.Check(); err != nil {
				return label, err
			}
		}
	}
	return label, nil
}

func parseRanges(amount string) (Ranges, error) {
	inner, ok := strings.CutSuffix(strings.TrimPrefix(amount, "["), "]")
	if !ok {
		return nil, fmt.Errorf("%q lacks its closing bracket", amount)
	}
	var ranges []Range
	for part := range strings.SplitSeq(inner, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		begin, err1 := strconv.ParseUint(first, 10, 63)
		end, err2 := strconv.ParseUint(last, 10, 63)
		if err1 != nil || err2 != nil || end < begin {
			return nil, fmt.Errorf("range %q is wrong; write FIRST-LAST, such as 31000-32000", part)
		}
		ranges = append(ranges, Range{begin, end})
	}
	return NewRanges(ranges...), nil
}

func parseSet(amount string) (Set, error) {
	inner, ok := strings.CutSuffix(strings.TrimPrefix(amount, "{"), "}")
	if !ok {
		return nil, fmt.Errorf("%q lacks its closing bracket", amount)
	}
	var words []string
	for word := range strings.SplitSeq(inner, ",") {
		word = strings.TrimSpace(word)
		if err := CheckID("a word of the set", word); err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return NewSet(words...), nil
}
