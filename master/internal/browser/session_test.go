package browser

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/master/registry"
)

var (
	now   = time.Date(2026, 3, 1, 11, 59, 0, 0, time.UTC) // a minute before another key signs
	began = time.Date(2026, 1, 1, 0, 0, 0, 7, time.UTC)
	ann   = session{principal: "ann", since: began, ends: now.Add(sessionMax)}
)

func wordOf(t *testing.T, s signer, one session, at time.Time) string {
	t.Helper()
	word, err := s.word(one, at)
	if err != nil {
		t.Fatal(err)
	}
	return word
}

// TestACookieSaysWhoLoggedIn at every master, for as long as it lives, whichever key signs by then.
func TestACookieSaysWhoLoggedIn(t *testing.T) {
	key := trust.NewKey()
	word := wordOf(t, signer{key}, ann, now)
	if n := len(signer{key}.cookie(word, sessionMax).String()); n > 600 {
		t.Errorf("it has %d bytes", n)
	}
	for _, at := range []time.Duration{-clocksApart, 0, time.Hour, sessionMax - time.Second} {
		if one, err := (signer{key}).read(word, now.Add(at)); err != nil || one.principal != "ann" || !one.since.Equal(began) || !one.ends.Equal(ann.ends) {
			t.Errorf("after %v it is read as %+v, %v", at, one, err)
		}
	}
	unknown := wordOf(t, signer{key}, session{principal: "bob", ends: ann.ends}, now)
	if one, err := (signer{key}).read(unknown, now); err != nil || !one.since.IsZero() {
		t.Errorf("of whom nothing is known: %+v, %v", one, err)
	}
}

// forge signs claims as somebody might who does not have the present key.
func forge(t *testing.T, method jwt.SigningMethod, key any, edit func(*claims)) string {
	t.Helper()
	said := claims{Since: began.UnixNano(), RegisteredClaims: jwt.RegisteredClaims{
		Subject: "ann", IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(time.Hour)),
	}}
	if edit != nil {
		edit(&said)
	}
	word, err := jwt.NewWithClaims(method, said).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return word
}

// TestWhatNoMasterHasSignedIsNoCookie, and neither is what a master signed too long ago or will sign.
func TestWhatNoMasterHasSignedIsNoCookie(t *testing.T) {
	key := trust.NewKey()
	s := signer{key}
	good, hour := wordOf(t, s, ann, now), s.keyOf(now)
	for name, word := range map[string]string{
		"that has ended":               wordOf(t, s, session{principal: "ann", since: began, ends: now}, now.Add(-time.Hour)),
		"of yesterday":                 wordOf(t, s, session{principal: "ann", since: began, ends: now.Add(24 * time.Hour)}, now.Add(-13*time.Hour)),
		"of tomorrow":                  wordOf(t, s, session{principal: "ann", since: began, ends: now.Add(24 * time.Hour)}, now.Add(2*clocksApart)),
		"of another cluster":           wordOf(t, signer{trust.NewKey()}, ann, now),
		"unsigned":                     forge(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil),
		"of another kind of signature": forge(t, jwt.SigningMethodHS512, hour, nil),
		"by the key of another hour":   forge(t, jwt.SigningMethodHS256, s.keyOf(now.Add(sessionMax)), nil),
		"by a key of something else":   forge(t, jwt.SigningMethodHS256, key.Derive("session tickets 1"), nil),
		"without an end":               forge(t, jwt.SigningMethodHS256, hour, func(c *claims) { c.ExpiresAt = nil }),
		"without a beginning":          forge(t, jwt.SigningMethodHS256, hour, func(c *claims) { c.IssuedAt = nil }),
		"cut off":                      good[:len(good)/2],
		"too long":                     forge(t, jwt.SigningMethodHS256, hour, func(c *claims) { c.Subject = strings.Repeat("a", cookieBytesMax) }),
		"with nothing in it":           "",
	} {
		if one, err := s.read(word, now); err == nil {
			t.Errorf("a cookie %s is read as %+v", name, one)
		}
	}
	if one, err := s.read(forge(t, jwt.SigningMethodHS256, hour, nil), now); err != nil || one.principal != "ann" {
		t.Errorf("what is signed as it should be is %+v, %v", one, err) // else nothing above says anything
	}
}

// TestAPrincipalThatBeganAnewIsAnother: the cookie of the one of before does not count for it.
func TestAPrincipalThatBeganAnewIsAnother(t *testing.T) {
	key := trust.NewKey()
	created := began
	p := &Door{signer: signer{key}, config: Config{Principals: func() map[string]registry.Principal {
		return map[string]registry.Principal{"ann": {Created: created}}
	}}}
	here := time.Now()
	word := wordOf(t, p.signer, session{principal: "ann", since: began, ends: here.Add(time.Hour)}, here)
	shows := func() bool {
		_, counts := p.sessionOf(&http.Request{Header: http.Header{"Cookie": {p.signer.cookieName() + "=" + word}}})
		return counts
	}
	if !shows() {
		t.Error("it does not count for who logged in")
	}
	if created = began.Add(time.Hour); shows() {
		t.Error("it counts for who has begun anew")
	}
}
