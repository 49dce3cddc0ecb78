package browser

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tenderhq/tender/internal/trust"
)

const (
	// sessionMax is for how long a cookie is valid at most, and for how long the same key signs cookies.
	sessionMax = 12 * time.Hour
	// clocksApart is how far the clocks of two masters may differ.
	clocksApart = time.Minute
	// cookiePrefix makes browsers accept the cookie only over HTTPS, for one host and for all its paths. The cluster's
	// name follows, because a host may have masters of several clusters.
	cookiePrefix = "__Host-tender-"
	// cookieBytesMax bounds the size of a cookie that is looked at. A real one has about 400 bytes.
	cookieBytesMax = 2 << 10
)

// session is what a cookie says.
type session struct {
	principal string
	// since is when the principal was created. A principal that is created anew under the same name is another one.
	since time.Time
	ends  time.Time
}

// claims is a session in the form of a JSON web token.
type claims struct {
	jwt.RegisteredClaims
	Since int64 `json:"since"` // in nanoseconds since 1970; 0: the registry knew no such principal
}

// signer makes and checks the cookies of one cluster.
type signer struct{ key trust.Key }

// cookieName returns the name of the cookie.
func (s signer) cookieName() string { return cookiePrefix + s.key.Cluster() }

// keyOf returns the key that signs at a given time. It changes every twelve hours, and is the same at all masters.
func (s signer) keyOf(at time.Time) []byte {
	return s.key.Derive(fmt.Sprint("browser sessions ", at.Unix()/int64(sessionMax/time.Second)))
}

// word returns the cookie's value for a session.
func (s signer) word(one session, now time.Time) (string, error) {
	said := claims{RegisteredClaims: jwt.RegisteredClaims{
		Subject: one.principal, IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(one.ends),
	}}
	if !one.since.IsZero() {
		said.Since = one.since.UnixNano()
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, said).SignedString(s.keyOf(now))
}

// read checks the value of a cookie and returns its session. The time at which it was signed also says which key signed
// it. A cookie that was signed longer ago than a cookie may live is refused.
func (s signer) read(word string, now time.Time) (session, error) {
	if len(word) > cookieBytesMax {
		return session{}, fmt.Errorf("the cookie has %d bytes, and none has more than %d", len(word), cookieBytesMax)
	}
	var read claims
	_, err := jwt.ParseWithClaims(word, &read, func(*jwt.Token) (any, error) {
		if read.IssuedAt == nil || read.IssuedAt.After(now.Add(clocksApart)) || read.IssuedAt.Before(now.Add(-sessionMax-clocksApart)) {
			return nil, errors.New("it is not of these hours")
		}
		return s.keyOf(read.IssuedAt.Time), nil
	}, jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(), jwt.WithTimeFunc(func() time.Time { return now }))
	if err != nil {
		return session{}, err
	}
	one := session{principal: read.Subject, ends: read.ExpiresAt.Time}
	if read.Since != 0 {
		one.since = time.Unix(0, read.Since)
	}
	return one, nil
}

// cookie returns the cookie with a value and its lifetime; without a value it deletes the cookie.
func (s signer) cookie(word string, life time.Duration) *http.Cookie {
	seconds := int(life / time.Second)
	if word == "" || seconds <= 0 {
		word, seconds = "", -1
	}
	return &http.Cookie{
		Name: s.cookieName(), Value: word, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}
