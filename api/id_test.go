package api_test

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
)

func TestCheckID(t *testing.T) {
	for _, id := range []string{"a", "task-1", "a.b_c", "Ünï", "...", strings.Repeat("x", 255), "-", "*", "a:b", "日本"} {
		if err := api.CheckID("task ID", id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for id, want := range map[string]string{
		"":                       "task ID is empty",
		".":                      `task ID "." is a folder's name`,
		"..":                     `task ID ".." is a folder's name`,
		strings.Repeat("x", 256): "task ID has 256 bytes, at most 255 are allowed",
		"a/b":                    `task ID "a/b" holds '/'; letters, digits, '-', '_' and '.' are safe`,
		`a\b`:                    `task ID "a\\b" holds '\\'; letters, digits, '-', '_' and '.' are safe`,
		"a b":                    `task ID "a b" holds ' '; letters, digits, '-', '_' and '.' are safe`,
		"a\x00":                  `task ID "a\x00" holds '\x00'; letters, digits, '-', '_' and '.' are safe`,
		"a\x7f":                  `task ID "a\x7f" holds '\x7f'; letters, digits, '-', '_' and '.' are safe`,
		"a\u00a0":                `task ID "a\u00a0" holds '\u00a0'; letters, digits, '-', '_' and '.' are safe`,
		"a\u0085":                `task ID "a\u0085" holds '\u0085'; letters, digits, '-', '_' and '.' are safe`,
		"a\xff":                  `task ID "a\xff" holds '�'; letters, digits, '-', '_' and '.' are safe`,
	} {
		if err := api.CheckID("task ID", id); err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", id, err, want)
		}
	}
}

func TestTermOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func() api.Term {
			return api.Term{Epoch: rapid.Uint64Range(0, 3).Draw(t, "epoch"), Number: rapid.Uint64Range(0, 3).Draw(t, "number")}
		}
		a, b := draw(), draw()
		want := cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Number, b.Number))
		if a.Compare(b) != want || b.Compare(a) != -want || a.Before(b) != (want < 0) {
			t.Fatalf("%v compared with %v: %d", a, b, a.Compare(b))
		}
		if (a.String() == b.String()) != (a == b) || (a.MintOffer(1) == b.MintOffer(1)) != (a == b) {
			t.Fatalf("%v and %v read alike", a, b)
		}
	})
	term := api.Term{Epoch: 2, Number: 7}
	if got := fmt.Sprintf("%v %v %v", term, term.MintOffer(42), api.Term{Number: 7}.MintInverse(3)); got != "7e2 offer-7e2-42 inverse-7-3" {
		t.Error(got)
	}
}

func TestRoles(t *testing.T) {
	for _, test := range []struct {
		role, above api.Role
		within      bool
	}{
		{"eng", "eng", true}, {"eng/web", "eng", true}, {"eng/web/a", "eng", true}, {"eng", "", true}, {"", "", true},
		{"engine", "eng", false}, {"eng", "eng/web", false}, {"ops/eng", "eng", false}, {"", "eng", false},
	} {
		if got := test.role.Within(test.above); got != test.within {
			t.Errorf("%q within %q: %v", test.role, test.above, got)
		}
	}
	for role, parent := range map[api.Role]api.Role{"eng/web/a": "eng/web", "eng/web": "eng", "eng": "", "": ""} {
		if got := role.Parent(); got != parent {
			t.Errorf("above %q is %q", role, got)
		}
	}
	for role, want := range map[api.Role]string{
		"":                                       `role "": a part is empty`,
		"/a":                                     `role "/a": a part is empty`,
		"a/../b":                                 `role "a/../b": a part ".." is a folder's name`,
		"*":                                      `role "*": a part may not be "*" or start with "-"`,
		"revocable":                              `role "revocable" has another meaning in the notation of resources; choose another name`,
		"a,b":                                    `role "a,b": a part may not hold brackets, ':', ';', ',' or '='`,
		"a/-b":                                   `role "a/-b": a part may not be "*" or start with "-"`,
		api.Role(strings.Repeat("a", 256)):       "role has 256 bytes, at most 255 are allowed",
		api.Role(strings.Repeat("a/", 16) + "a"): `role "` + strings.Repeat("a/", 16) + `a" is 17 levels deep, at most 16 are allowed`,
	} {
		if err := role.Check(); err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", role, err, want)
		}
	}
	for _, role := range []api.Role{api.DefaultRole, "eng/web", "a-b/c_d", "é"} {
		if err := role.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestErrors(t *testing.T) {
	cause := errors.New("the agent went away")
	stale := api.E("offer.accept", api.Stale, api.OfferID("offer-7-42"), cause)
	for _, test := range []struct {
		err  error
		want string
	}{
		{stale, "offer.accept: offer-7-42: stale: the agent went away"},
		{api.E("", api.Invalid, "", nil), "invalid"},
		{api.E("op", api.NotLeader, "", nil), "op: not leader"},
		{api.E("task.kill", api.Stale, "t1", stale), "task.kill: t1: offer.accept: offer-7-42: stale: the agent went away"},
		{api.E("task.kill", api.Limit, "t1", stale), "task.kill: t1: limit: offer.accept: offer-7-42: stale: the agent went away"},
		{api.E("op", 99, "", nil), "op: internal"},
		{api.E("offer.accept", api.Stale, "offer-7-42", stale), "offer.accept: offer-7-42: stale: the agent went away"},
		{api.E("offer.accept", api.Denied, "call-1", stale).RetryIn(time.Second), "offer.accept: call-1: denied: offer-7-42: stale: the agent went away"},
		{api.E("task.kill", api.Stale, "offer-7-42", stale.RetryIn(time.Second)), "task.kill: offer-7-42: offer.accept: stale: the agent went away"},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	wrapped := fmt.Errorf("wrapped: %w", api.E("x", api.Denied, "", stale))
	if api.KindOf(wrapped) != api.Denied || !api.Is(wrapped, api.Denied) || api.Is(wrapped, api.Stale) || !errors.Is(wrapped, cause) {
		t.Error("the outermost kind counts, and causes are found")
	}
	if api.KindOf(cause) != api.Internal || api.Is(nil, api.Internal) {
		t.Error("what is no Error is Internal; nil is nothing")
	}
}

func TestFilters(t *testing.T) {
	for refuse, want := range map[time.Duration]time.Duration{
		0: api.DefaultRefuse, -1: 0, time.Minute: time.Minute, 1<<63 - 1: 365 * 24 * time.Hour,
	} {
		if got := (api.Filter{Refuse: refuse}).For(); got != want {
			t.Errorf("%v: %v", refuse, got)
		}
	}
	offer := api.Offer{ID: "o"}
	if answer := api.Decline(offer, -1); answer.Offers[0] != "o" || answer.Filter != api.NoFilter || len(answer.Operations) != 0 {
		t.Error(answer)
	}
	if answer := api.Launch(offer, api.Task{ID: "t"}); answer.Operations[0].Kind != api.OpLaunch || answer.Operations[0].Tasks[0].ID != "t" {
		t.Error(answer)
	}
	if answer := api.Keep(offer); !answer.Keep || answer.Offers[0] != "o" {
		t.Error(answer)
	}
	task := api.Task{ID: "t"}
	if task.DisplayName() != "t" || task.ExecutorID() != api.CommandExecutor {
		t.Error(task)
	}
	task.Name, task.Executor = "web", &api.Executor{ID: "x"}
	if task.DisplayName() != "web" || task.ExecutorID() != "x" {
		t.Error(task)
	}
	status := api.Status{Framework: "f", Task: "t"}
	if got := fmt.Sprint(status.Ref(), api.ExecutorRef{Framework: "f", Executor: "x"}); got != "f/t f/x" {
		t.Error(got)
	}
}
