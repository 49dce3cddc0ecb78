package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
)

// canonical checks the properties on which equality and all loops over resources rely.
func canonical(t *rapid.T, r api.Resources) {
	t.Helper()
	if r.IsZero() != (len(r.Items()) == 0) {
		t.Fatalf("%v: zero and not", r)
	}
	if err := r.Check(); err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	for i, item := range r.Items() {
		if item.Scalar == 0 && len(item.Ranges) == 0 && len(item.Set) == 0 {
			t.Fatalf("%v: item %d holds nothing", r, i)
		}
		if i > 0 && item.Label == r.Items()[i-1].Label {
			t.Fatalf("%v: two items of one label", r)
		}
		if slices.Compare(item.Set, api.NewSet(item.Set...)) != 0 || !slices.Equal(item.Ranges, api.NewRanges(item.Ranges...)) {
			t.Fatalf("%v: item %d is not canonical", r, i)
		}
	}
	if again := api.NewResources(r.Items()...); !again.Equal(r) || !slices.EqualFunc(again.Items(), r.Items(),
		func(a, b api.Resource) bool { return a.Label == b.Label }) {
		t.Fatalf("%v: made anew it is %v", r, again)
	}
}

func equal(t *rapid.T, got, want api.Resources, what string) {
	t.Helper()
	canonical(t, got)
	if !got.Equal(want) || !want.Equal(got) || got.String() != want.String() {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func TestPlusAndMinus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := genResources(t), genResources(t), genResources(t)
		textA, textB := a.String(), b.String()
		equal(t, a.Plus(b), b.Plus(a), "commutative")
		equal(t, a.Plus(b).Plus(c), a.Plus(b.Plus(c)), "associative")
		equal(t, a.Plus(api.Resources{}), a, "nothing added")
		if !a.Plus(b).Contains(a) || !a.Plus(b).Contains(b) {
			t.Fatalf("%v plus %v does not contain both", a, b)
		}

		left, ok := a.Minus(b)
		if ok != a.Contains(b) {
			t.Fatalf("%v minus %v: %v", a, b, ok)
		}
		if ok {
			equal(t, left.Plus(b), a, "what was taken comes back")
		} else {
			equal(t, left, a, "nothing was taken")
		}

		d := genDisjoint(t, a)
		back, ok := a.Plus(d).Minus(d)
		if !ok {
			t.Fatalf("%v plus %v does not contain the second", a, d)
		}
		equal(t, back, a, "minus undoes plus")
		if a.String() != textA || b.String() != textB {
			t.Fatal("an operand was changed")
		}
	})
}

func TestIntersectAndWithout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genResources(t), genResources(t)
		both := a.Intersect(b)
		equal(t, both, b.Intersect(a), "commutative")
		if !a.Contains(both) || !b.Contains(both) {
			t.Fatalf("%v and %v do not both contain %v", a, b, both)
		}
		equal(t, a.Without(b).Plus(both), a, "without and intersection make the whole")
		if a.Contains(b) != both.Equal(b) {
			t.Fatalf("%v contains %v: %v, but they have %v in common", a, b, a.Contains(b), both)
		}
		if !a.Without(b).Intersect(onlySets(b)).IsZero() {
			t.Fatalf("%v without %v is %v", a, b, a.Without(b))
		}
		for _, item := range a.Items() {
			if found, ok := a.Find(item.Label); !ok || found.Scalar != item.Scalar {
				t.Fatalf("%v: %v not found", a, item.Label)
			}
		}
	})
}

// Carve takes exactly what was asked and conserves the whole.
func TestCarve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole, ask := genResources(t), genResources(t)
		if rapid.Bool().Draw(t, "plain") {
			ask = ask.Plain()
		}
		taken, rest, ok := whole.Carve(ask)
		if !ok {
			equal(t, rest, whole, "nothing taken")
			equal(t, taken, api.Resources{}, "nothing taken")
			return
		}
		equal(t, taken.Plus(rest), whole, "conserved")
		if left, ok := whole.Minus(taken); !ok || !left.Equal(rest) {
			t.Fatalf("%v carved %v: rest %v, left %v", whole, taken, rest, left)
		}
		equal(t, taken.Plain(), ask.Plain(), "what was asked")
		for _, item := range taken.Items() {
			asked, named := ask.Find(item.Label)
			if (item.Volume != "" || item.Revocable) && (!named || !asked.Ranges.Contains(item.Ranges) || asked.Scalar < item.Scalar) {
				t.Fatalf("took %v, which was not asked by its label: %v", item.Label, ask)
			}
		}
	})
}

// Carve finds resources for a request without labels whenever the plain parts hold enough.
func TestCarveFindsWhatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := genResources(t)
		usable := whole.Filter(func(l api.Label) bool { return l.Volume == "" && l.Tag == "" && !l.Revocable })
		ask := genResources(t).Plain()
		if _, _, ok := whole.Carve(ask); ok != usable.Plain().Contains(ask) {
			t.Fatalf("%v carve %v: %v", whole, ask, ok)
		}
	})
}

func TestCarveTakesReservedPartsFirst(t *testing.T) {
	whole := parse(t, "cpus:4;cpus(eng):2;cpus(revocable):8;disk(eng,volume=v1):100;mem:100;ports:[31000,31005-31009]")
	for _, test := range []struct{ ask, taken, rest string }{
		{"cpus:1", "cpus(eng):1", "cpus:4;cpus(revocable):8;cpus(eng):1;disk(eng,volume=v1):100;mem:100;ports:[31000,31005-31009]"},
		{"cpus:3", "cpus:1;cpus(eng):2", "cpus:3;cpus(revocable):8;disk(eng,volume=v1):100;mem:100;ports:[31000,31005-31009]"},
		{"cpus(revocable):3;mem:100", "cpus(revocable):3;mem:100", "cpus:4;cpus(revocable):5;cpus(eng):2;disk(eng,volume=v1):100;ports:[31000,31005-31009]"},
		{"disk(eng,volume=v1):100", "disk(eng,volume=v1):100", "cpus:4;cpus(revocable):8;cpus(eng):2;mem:100;ports:[31000,31005-31009]"},
		{"cpus:7", "", ""},
		{"disk:1", "", ""},
		{"gpus:1", "", ""},
		{"ports:2;mem:1", "mem:1;ports:[31000,31005]", "cpus:4;cpus(revocable):8;cpus(eng):2;disk(eng,volume=v1):100;mem:99;ports:[31006-31009]"},
		{"ports:7", "", ""},
		{"ports:1.5", "", ""},
	} {
		taken, rest, ok := whole.Carve(parse(t, test.ask))
		switch {
		case !ok && test.taken == "":
		case !ok || taken.String() != test.taken || rest.String() != test.rest:
			t.Errorf("%s: took %v, left %v, %v", test.ask, taken, rest, ok)
		}
	}
}

func TestStringComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := genResources(t)
		read, err := api.ParseResources(r.String())
		if err != nil {
			t.Fatal(err)
		}
		equal(t, read, r, "the notation")
	})
}

func TestJSON(t *testing.T) {
	text, err := json.Marshal(parse(t, "cpus:4.5;disk(eng):100;ports:[1-3];zones:{a}"))
	if want := `{"cpus":4.5,"disk(eng)":100,"ports":"[1-3]","zones":"{a}"}`; err != nil || string(text) != want {
		t.Errorf("%s %v", text, err)
	}
	if text, err := json.Marshal(api.Resources{}); err != nil || string(text) != "{}" {
		t.Errorf("%s %v", text, err)
	}
}

func parse(t *testing.T, text string) api.Resources {
	t.Helper()
	r, err := api.ParseResources(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestViews(t *testing.T) {
	r := parse(t, "cpus:4;cpus(eng):2;disk(eng/web):7;mem(ops):8;ports:[1-3];ports(eng):[9]")
	for what, got := range map[string]string{
		"usable by eng":     r.UsableBy("eng").String(),
		"usable by eng/web": r.UsableBy("eng/web").String(),
		"usable by engine":  r.UsableBy("engine").String(),
		"plain":             r.Plain().String(),
		"scalar":            r.Scalar("cpus").String(),
		"ranges":            r.RangesOf("ports").String(),
		"scalars":           api.Scalars(0.5, 128).String(),
		"nothing":           api.Resources{}.String(),
	} {
		want := map[string]string{
			"usable by eng":     "cpus:4;cpus(eng):2;ports:[1-3];ports(eng):[9]",
			"usable by eng/web": "cpus:4;cpus(eng):2;disk(eng/web):7;ports:[1-3];ports(eng):[9]",
			"usable by engine":  "cpus:4;ports:[1-3]",
			"plain":             "cpus:6;disk:7;mem:8;ports:[1-3,9]",
			"scalar":            "6",
			"ranges":            "[1-3,9]",
			"scalars":           "cpus:0.5;mem:128",
			"nothing":           "nothing",
		}[what]
		if got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
}

func TestMustParseResources(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a wrong constant does not panic")
		}
	}()
	api.MustParseResources("cpus:four")
}

func TestBadResources(t *testing.T) {
	for text, want := range map[string]string{
		"cpus":                          `resources "cpus": write NAME:AMOUNT, such as cpus:4 or ports:[31000-32000]`,
		"cpus:":                         `resources "cpus:": "" is not a number; write a number such as 2, 0.5 or 0.125`,
		"cpus:four":                     `resources "cpus:four": "four" is not a number; write a number such as 2, 0.5 or 0.125`,
		"cpus:-1":                       `resources "cpus:-1": "-1" is negative; write a number such as 2, 0.5 or 0.125`,
		"cpus:0.0001":                   `resources "cpus:0.0001": "0.0001" is finer than thousandths; write a number such as 2, 0.5 or 0.125`,
		"cpus:1;mem:9e9":                `resources "mem:9e9": "9e9" is not a number; write a number such as 2, 0.5 or 0.125`,
		"mem:99999999999999":            `resources "mem:99999999999999": "99999999999999" is larger than 1000000000; write a number such as 2, 0.5 or 0.125`,
		":4":                            "a resource's name is empty",
		"c pus:4":                       `a resource's name "c pus" holds ' '; letters, digits, '-', '_' and '.' are safe`,
		"cpus(eng:4":                    `resources "cpus(eng:4": "cpus(eng" lacks its closing bracket`,
		"cpus(*):4":                     `resources "cpus(*):4": role "*": a part may not be "*" or start with "-"`,
		"cpus():4":                      `resources "cpus():4": "cpus()" has an empty label; write a role, "revocable" or leave the brackets out`,
		"cpus(a,b):4":                   `resources "cpus(a,b):4": "cpus(a,b)" names two roles; resources are reserved for one`,
		"cpus(dynamic):4":               "cpus(dynamic): only a reservation can be dynamic; name its role",
		"cpus(a,revocable):4":           "cpus(a,revocable): revocable resources can't be reserved",
		"disk(volume=v):4":              "disk(volume=v): only reserved disk can be a volume",
		"ports:[1-2":                    `resources "ports:[1-2": "[1-2" lacks its closing bracket`,
		"ports:[2-1]":                   `resources "ports:[2-1]": range "2-1" is wrong; write FIRST-LAST, such as 31000-32000`,
		"ports:[]":                      `resources "ports:[]": range "" is wrong; write FIRST-LAST, such as 31000-32000`,
		"ports:[1-2-3]":                 `resources "ports:[1-2-3]": range "1-2-3" is wrong; write FIRST-LAST, such as 31000-32000`,
		"zones:{a":                      `resources "zones:{a": "{a" lacks its closing bracket`,
		"zones:{a,,b}":                  `resources "zones:{a,,b}": a word of the set is empty`,
		"x:4;x:[1-2]":                   "x is of two kinds; it is a number, ranges or a set",
		"x:4;x(eng):[1-2]":              "x is of two kinds; it is a number, ranges or a set everywhere",
		strings.Repeat("x", 300) + ":1": "a resource's name has 300 bytes, at most 255 are allowed",
	} {
		r, err := api.ParseResources(text)
		if err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
		if err != nil && !r.IsZero() {
			t.Errorf("%q: an error and %v", text, r)
		}
	}
	for _, text := range []string{"", " ", ";;", "nothing", "cpus:0", " cpus : 4 ; mem : 1 "} {
		if _, err := api.ParseResources(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestBoundsOfBundles(t *testing.T) {
	var items []api.Resource
	for i := range api.ResourceNamesMax + 1 {
		items = append(items, api.Resource{Label: api.Label{Name: "r" + strings.Repeat("x", i)}, Scalar: 1})
	}
	if err := api.NewResources(items...).Check(); err == nil || err.Error() != "65 kinds of resources, at most 64 are allowed" {
		t.Error(err)
	}
	items = nil
	for i := range api.ResourceNamesMax + 1 { // one kind, many roles
		items = append(items, api.Resource{Label: api.Label{Name: "cpus", Reserved: api.Role("r" + strings.Repeat("x", i))}, Scalar: 1})
	}
	if err := api.NewResources(items...).Check(); err != nil {
		t.Error(err)
	}
	var many []api.Range
	for i := range uint64(api.RangesMax + 1) {
		many = append(many, api.Range{Begin: 3 * i, End: 3*i + 1})
	}
	ports := api.NewResources(api.Resource{Label: api.Label{Name: "ports"}, Ranges: api.NewRanges(many...)})
	if err := ports.Check(); err == nil || err.Error() != "ports has 4097 ranges, at most 4096 are allowed" {
		t.Error(err)
	}
}
