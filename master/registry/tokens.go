package registry

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// TokenKind says what somebody becomes who joins with a token.
type TokenKind string

// The kinds of tokens. An agent or a master that joins says its own name; the others get the name of the token's
// principal.
const (
	AgentToken     TokenKind = "agent"
	MasterToken    TokenKind = "master"
	FrameworkToken TokenKind = "framework"
	OperatorToken  TokenKind = "operator"
)

// TokenKinds returns all kinds.
func TokenKinds() []TokenKind {
	return []TokenKind{AgentToken, MasterToken, FrameworkToken, OperatorToken}
}

// OfPrincipal reports whether whoever joins gets the name of the token's principal.
func (k TokenKind) OfPrincipal() bool { return k == FrameworkToken || k == OperatorToken }

// Token lets somebody join the cluster. Only the hash of its secret is stored.
type Token struct {
	ID        string
	Kind      TokenKind
	Principal string // the principal of the framework or person; "" for the other kinds
	Hash      string // hash of the secret
	By        string // who made it
	Created   time.Time
	Expires   time.Time // zero: never
	UsesMax   uint64    // 0: any number of uses, and Used stays empty
	// Used holds the keys with which somebody has joined, for a token of limited uses. The same key again is the same
	// use. Replaced, never edited.
	Used    []string
	Revoked time.Time // zero: it is not revoked
}

// Refusal says why nobody can join with the token at a given time; "" if somebody can.
func (t Token) Refusal(at time.Time) string {
	switch {
	case !t.Revoked.IsZero():
		return "it was revoked"
	case !t.Expires.IsZero() && !at.Before(t.Expires):
		return "it has expired"
	}
	return ""
}

// ended returns since when nobody can join with the token; the zero time if somebody can, or if that is not known.
func (t Token) ended(at time.Time) time.Time {
	switch {
	case !t.Revoked.IsZero():
		return t.Revoked
	case t.Refusal(at) != "":
		return t.Expires
	}
	return time.Time{}
}

// CreateToken stores a token. The same one again changes nothing.
type CreateToken struct {
	Token Token
}

func (change CreateToken) apply(s *State, at time.Time) Result {
	const op = "token.create"
	token := change.Token
	token.Used, token.Revoked, token.Created = nil, time.Time{}, at
	switch known, is := s.Tokens[token.ID]; {
	case is && known.Hash == token.Hash:
		return Result{}
	case is:
		return refuse(op, api.Exists, token.ID, "there is a token of this ID already")
	}
	if bad := token.check(op, at); bad != nil {
		return *bad
	}
	s.forgetTokens(at)
	if len(s.Tokens) >= TokensMax {
		return refuse(op, api.Limit, token.ID, "%d tokens are kept; revoke those that nobody needs", TokensMax)
	}
	s.setToken(token)
	return Result{}
}

func (CreateToken) saw() sight { return blind("an ID that is taken by another token is refused") }

func (CreateToken) onlyKept() {}

func (t Token) check(op string, at time.Time) *Result {
	if bad := refuseID(op, "the token's ID", t.ID); bad != nil {
		return bad
	}
	invalid := func(format string, args ...any) *Result {
		return refusal(op, api.Invalid, t.ID, format, args...)
	}
	switch {
	case !slices.Contains(TokenKinds(), t.Kind):
		return invalid("%q is no kind of token; there are %v", cut(string(t.Kind), SubjectBytesMax), TokenKinds())
	case t.Kind.OfPrincipal() != (t.Principal != ""):
		return invalid("a token of a framework or an operator names a principal, and no other does")
	case len(t.Hash) == 0 || len(t.Hash) > TokenHashBytesMax || len(t.By) > api.TextBytesMax:
		return invalid("the hash of its secret, or who made it, is missing or too long")
	case !t.Expires.IsZero() && !at.Before(t.Expires):
		return invalid("it would have expired before it was made")
	case t.UsesMax > TokenUsesMax:
		return invalid("it may be used %d times; at most %d can be counted, and 0 is as often as one likes", t.UsesMax, TokenUsesMax)
	}
	if t.Principal != "" {
		return refuseID(op, "the principal", t.Principal)
	}
	return nil
}

// UseToken counts a use of a token of limited uses.
type UseToken struct {
	ID  string
	Key string // key of whoever joins; the same key again is the same use
}

func (change UseToken) apply(s *State, at time.Time) Result {
	const op = "token.use"
	token, known := s.Tokens[change.ID]
	switch {
	case !known:
		return refuse(op, api.Denied, cut(change.ID, SubjectBytesMax), "there is no such token")
	case token.Refusal(at) != "":
		return refuse(op, api.Denied, token.ID, "%s", token.Refusal(at))
	case change.Key == "" || len(change.Key) > TokenHashBytesMax:
		return refuse(op, api.Invalid, token.ID, "the key of who joins is missing or too long")
	case token.UsesMax == 0, slices.Contains(token.Used, change.Key):
		return Result{}
	case uint64(len(token.Used)) >= token.UsesMax:
		return refuse(op, api.Denied, token.ID, "all its uses (%d) are used up; an operator makes another token: tender token create", token.UsesMax)
	}
	token.Used = append(slices.Clone(token.Used), change.Key)
	s.setToken(token)
	return Result{}
}

func (UseToken) saw() sight {
	return blind("a token that was revoked, has expired or is used up is refused")
}

func (UseToken) onlyKept() {}

// RevokeToken revokes a token, so that nobody can join with it any more. Whoever has joined with it stays.
type RevokeToken struct {
	ID string
}

func (change RevokeToken) apply(s *State, at time.Time) Result {
	token, known := s.Tokens[change.ID]
	if !known {
		return refuse("token.revoke", api.NotFound, cut(change.ID, SubjectBytesMax), "there is no such token")
	}
	if token.Revoked.IsZero() {
		token.Revoked = at
		s.setToken(token)
	}
	return Result{}
}

func (RevokeToken) saw() sight {
	return blind("a token never changes; revoking it is right whenever it is done")
}

func (RevokeToken) onlyKept() {}

func (s *State) setToken(token Token) {
	writable(&s.Tokens, &s.shared.tokens)[token.ID] = token
}

// forgetTokens makes room by forgetting tokens that ended long ago. The first operator's token is remembered forever,
// because it would be made again.
func (s *State) forgetTokens(at time.Time) {
	if len(s.Tokens) < TokensMax {
		return
	}
	for id, token := range writable(&s.Tokens, &s.shared.tokens) { // order: irrelevant because each is judged alone
		if ended := token.ended(at); !ended.IsZero() && at.Sub(ended) > TokenRemembered && id != FirstToken {
			delete(s.Tokens, id)
		}
	}
}
