package registry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
)

// tokens is a registry of the newest format, at a time of its own.
type tokens struct {
	*testing.T
	state *State
	at    time.Time
}

func newTokens(t *testing.T) *tokens {
	s := New()
	s.Format = Format
	return &tokens{t, s, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// wants applies a change and wants a kind of refusal; allowed: none.
func (x *tokens) wants(want api.Kind, change Change) {
	x.Helper()
	result := x.state.Apply(Command{At: x.at, Change: change})
	switch {
	case want == allowed && result.Err != nil:
		x.Errorf("%+v is refused: %v", change, result.Err)
	case want != allowed && (result.Err == nil || result.Err.Kind != want):
		x.Errorf("%+v: %v, want a refusal as %v", change, result.Err, want)
	}
}

const allowed api.Kind = 255

func TestALimitedTokenCountsWhoJoins(t *testing.T) {
	x := newTokens(t)
	token := Token{ID: "t1", Kind: AgentToken, Hash: "h", UsesMax: 2, Expires: x.at.Add(time.Hour)}
	x.wants(allowed, CreateToken{token})
	x.wants(allowed, CreateToken{token}) // the same again
	x.wants(api.Exists, CreateToken{Token{ID: "t1", Kind: AgentToken, Hash: "other"}})
	x.wants(allowed, UseToken{"t1", "k1"})
	x.wants(allowed, UseToken{"t1", "k1"}) // asks again
	x.wants(allowed, UseToken{"t1", "k2"})
	x.wants(api.Denied, UseToken{"t1", "k3"})
	x.wants(allowed, UseToken{"t1", "k2"})
	x.wants(api.Denied, UseToken{"t2", "k1"})
	x.wants(api.Invalid, UseToken{"t1", ""})
	x.at = x.at.Add(time.Hour)
	x.wants(api.Denied, UseToken{"t1", "k1"})
}

func TestARevokedTokenLetsNobodyIn(t *testing.T) {
	x := newTokens(t)
	x.wants(allowed, CreateToken{Token{ID: "t1", Kind: OperatorToken, Principal: "ann", Hash: "h", Used: []string{"k"}, Revoked: x.at}})
	x.wants(allowed, UseToken{"t1", "k1"})
	if got := x.state.Tokens["t1"]; len(got.Used) > 0 || !got.Created.Equal(x.at) || !got.Revoked.IsZero() {
		t.Errorf("it is kept as %+v", got)
	}
	x.wants(api.NotFound, RevokeToken{"t2"})
	x.wants(allowed, RevokeToken{"t1"})
	x.at = x.at.Add(time.Minute)
	x.wants(allowed, RevokeToken{"t1"})
	x.wants(api.Denied, UseToken{"t1", "k1"})
	if got := x.state.Tokens["t1"].Revoked; got.Equal(x.at) {
		t.Error("it was revoked twice")
	}
}

func TestImpossibleTokensAreRefused(t *testing.T) {
	x := newTokens(t)
	for _, token := range []Token{
		{}, {ID: "t", Kind: "king", Hash: "h"}, {ID: "t/", Kind: AgentToken, Hash: "h"}, {ID: "t", Kind: AgentToken},
		{ID: "t", Kind: AgentToken, Hash: "h", Principal: "ann"}, {ID: "t", Kind: FrameworkToken, Hash: "h"},
		{ID: "t", Kind: FrameworkToken, Hash: "h", Principal: "a/b"},
		{ID: "t", Kind: AgentToken, Hash: "h", UsesMax: TokenUsesMax + 1}, {ID: "t", Kind: AgentToken, Hash: "h", Expires: x.at},
		{ID: "t", Kind: AgentToken, Hash: string(make([]byte, TokenHashBytesMax+1))},
	} {
		x.wants(api.Invalid, CreateToken{token})
	}
	if len(x.state.Tokens) > 0 {
		t.Errorf("tokens are kept: %v", x.state.Tokens)
	}
}

func TestTokensThatEndedAreForgotten(t *testing.T) {
	x := newTokens(t)
	x.wants(allowed, CreateToken{Token{ID: FirstToken, Kind: OperatorToken, Principal: "admin", Hash: "h"}})
	x.wants(allowed, RevokeToken{FirstToken})
	for i := range TokensMax - 1 {
		x.state.Apply(Command{At: x.at, Change: CreateToken{Token{ID: fmt.Sprint("t", i), Kind: AgentToken, Hash: "h", Expires: x.at.Add(time.Hour)}}})
	}
	before := x.state.Clone()
	x.wants(api.Limit, CreateToken{Token{ID: "more", Kind: AgentToken, Hash: "h"}})
	x.at = x.at.Add(TokenRemembered + 2*time.Hour)
	x.wants(allowed, CreateToken{Token{ID: "more", Kind: AgentToken, Hash: "h"}})
	if got := x.state.Tokens; len(got) != 2 || got[FirstToken].ID == "" || got["more"].ID == "" {
		t.Errorf("there are %d tokens, want the first and the new one", len(got))
	}
	if len(before.Tokens) != TokensMax {
		t.Errorf("a clone has changed: it holds %d tokens", len(before.Tokens))
	}
}

func TestTwoAuthoritiesAtATimeAreEnough(t *testing.T) {
	x := newTokens(t)
	digest := func(letter string) string { return strings.Repeat(letter, 2*AuthorityDigestBytes) }
	first := RotateAuthority{Digest: digest("a"), Sealed: []byte("sealed"), FormerEnds: x.at.Add(time.Hour)}
	for _, wrong := range []RotateAuthority{
		{Digest: "a", Sealed: first.Sealed, FormerEnds: first.FormerEnds},
		{Digest: digest("x"), Sealed: first.Sealed, FormerEnds: first.FormerEnds},
		{Digest: first.Digest, FormerEnds: first.FormerEnds},
		{Digest: first.Digest, Sealed: make([]byte, AuthorityBytesMax+1), FormerEnds: first.FormerEnds},
		{Digest: first.Digest, Sealed: first.Sealed, FormerEnds: x.at},
	} {
		x.wants(api.Invalid, wrong)
	}
	x.wants(allowed, first)
	x.wants(allowed, first) // the same again
	second := RotateAuthority{Saw: digest("a"), Digest: digest("b"), Sealed: []byte("sealed"), FormerEnds: x.at.Add(3 * time.Hour)}
	x.wants(api.Exists, second)
	x.at = first.FormerEnds
	x.wants(allowed, second)
	if got := x.state.Authority; got.Digest != second.Digest || !got.Began.Equal(x.at) || !got.FormerEnds.Equal(second.FormerEnds) {
		t.Errorf("it is kept as %+v", got)
	}
}
