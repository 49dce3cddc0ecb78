// Package ticket makes and reads tickets: by a ticket the leader tells an agent that the principal for whom it is made
// may look into a certain task there for the next minutes. So agents need no list of people, and masters carry no
// output.
//
// A ticket is a JSON web token that a master signs with the key of its own certificate, which is part of the ticket.
// Agents verify it by the same roots as masters on connections. So there is no other key to distribute, to keep or to
// change: a master's lives for a day, in memory. A ticket is only valid for the principal that it names, on a
// connection that proves that identity (R47).
//
// The package knows nothing of grants: the signer has checked them.
package ticket

import (
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
)

const (
	// Life is how long a ticket can be used. What it has opened may go on after that.
	Life = 5 * time.Minute
	// ClocksApart is how far the clocks of a master and an agent may differ: by the agent's clock a ticket is valid
	// from that long before it was made until that long after its end.
	ClocksApart = time.Minute
	// wordBytesMax limits the size of a ticket; one has some 1,300 bytes.
	wordBytesMax = 8 << 10
	op           = "ticket"
)

// Ticket is the content of a ticket.
type Ticket struct {
	For trust.Identity // the identity that may show it
	// Person is for whom a master shows it that serves the page: who is let in, and in whose name. Empty: For itself.
	Person string
	Opens  rights.Ticket
	Agent  api.AgentID // the agent at which it is valid
	// Task is the task that it is for. Without a task ID it is for all tasks of the framework there; if empty, for the
	// agent itself.
	Task api.TaskRef
	// Signed is when the leader has signed it, by the leader's clock; [Read] sets it.
	Signed time.Time
}

// claims are the content of a ticket in a JSON web token.
type claims struct {
	jwt.RegisteredClaims
	Opens     rights.Ticket   `json:"opens"`
	Person    string          `json:"person,omitempty"`
	Framework api.FrameworkID `json:"framework,omitempty"`
	Task      api.TaskID      `json:"task,omitempty"`
	// Signed is when it was signed, in nanoseconds since 1970. The other times are whole seconds, which would not tell
	// a new ticket from those that were made void within the same second. 0: the master that signed it knew only the
	// second.
	Signed int64 `json:"signed,omitempty"`
}

// Principal returns who is let in by the ticket.
func (t Ticket) Principal() string { return cmp.Or(t.Person, t.For.Name) }

// signedAt returns when the ticket was signed.
func (c *claims) signedAt() time.Time {
	if c.Signed == 0 {
		return c.NotBefore.Time
	}
	return time.Unix(0, c.Signed)
}

// chainHeader is the header with the certificate of the signer, and what leads from it to a former authority (RFC 7515,
// 4.1.6).
const chainHeader = "x5c"

// chainMax limits the certificates in a ticket.
const chainMax = 2

// Sign makes a ticket as text, signed by the master whose pass it is.
func Sign(master *trust.Pass, t Ticket, now time.Time) (string, error) {
	token := jwt.NewWithClaims(jwt.SigningMethodES256, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: master.Identity().String(), Subject: t.For.String(), Audience: jwt.ClaimStrings{string(t.Agent)},
			NotBefore: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(Life)),
		},
		Opens: t.Opens, Person: t.Person, Framework: t.Task.Framework, Task: t.Task.Task, Signed: now.UnixNano(),
	})
	var chain []string
	for _, der := range master.Chain() {
		chain = append(chain, base64.StdEncoding.EncodeToString(der))
	}
	token.Header[chainHeader] = chain
	word, err := token.SignedString(master.Key())
	if err != nil {
		return "", api.E(op, api.Internal, t.Task.String(), err)
	}
	return word, nil
}

// Read returns the content of a ticket, if a master of the cluster has signed it and it has not expired; own is the
// reader's pass.
func Read(own *trust.Pass, word string, now time.Time) (Ticket, error) {
	if len(word) > wordBytesMax {
		return Ticket{}, denied("the ticket has %d bytes, and none has more than %d", len(word), wordBytesMax)
	}
	var read claims
	_, err := jwt.ParseWithClaims(word, &read, func(token *jwt.Token) (any, error) { return signerOf(own, token, &read, now) },
		jwt.WithValidMethods([]string{jwt.SigningMethodES256.Alg()}), jwt.WithLeeway(ClocksApart), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return now }))
	if err != nil {
		return Ticket{}, refusal(err, &read, now)
	}
	who, err := trust.Parse(read.Subject)
	if err != nil || len(read.Audience) != 1 || read.NotBefore == nil {
		return Ticket{}, denied("the ticket does not say for whom, for which agent and from when on it is")
	}
	return Ticket{
		For: who, Person: read.Person, Opens: read.Opens, Agent: api.AgentID(read.Audience[0]), Task: api.TaskRef{Framework: read.Framework, Task: read.Task},
		Signed: read.signedAt(),
	}, nil
}

// signerOf returns the public key of the master whose certificate is in the token.
func signerOf(own *trust.Pass, token *jwt.Token, read *claims, now time.Time) (any, error) {
	shown, _ := token.Header[chainHeader].([]any)
	if len(shown) == 0 || len(shown) > chainMax {
		return nil, denied("the ticket does not show the certificate of one master")
	}
	var chain []*x509.Certificate
	for _, one := range shown {
		text, _ := one.(string)
		certificate, err := parseCertificate(text)
		if err != nil {
			return nil, denied("the certificate in the ticket can't be read")
		}
		chain = append(chain, certificate)
	}
	signer, err := own.Identify(chain, now)
	switch {
	case err != nil:
		return nil, err
	case signer.Kind != trust.Master:
		return nil, denied("the ticket is signed by %s, and only masters give tickets", signer)
	case signer.String() != read.Issuer:
		return nil, denied("the ticket is signed by %s, and says that it is by another", signer)
	}
	return chain[0].PublicKey, nil
}

func parseCertificate(text string) (*x509.Certificate, error) {
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// refusal returns a sentence about what is wrong with a ticket.
func refusal(err error, read *claims, now time.Time) error {
	const clocks = "clocks of masters and agents may differ by %s"
	switch own := (*api.Error)(nil); {
	case errors.As(err, &own): // the error is signerOf's
		return api.E(op, api.Denied, "", fmt.Errorf("the ticket does not count here: %w", own))
	case errors.Is(err, jwt.ErrTokenExpired):
		return denied("the ticket ended at %s, and it is %s by this agent's clock; ask for another one ("+clocks+")",
			read.ExpiresAt.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339), ClocksApart)
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return denied("the ticket begins at %s, and it is %s by this agent's clock; set that right ("+clocks+")",
			read.NotBefore.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339), ClocksApart)
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return denied("the ticket is not signed by the master that it names")
	}
	return denied("this is no ticket of a leader")
}

// Check returns why the ticket does not open what is wanted, or nil.
func (t Ticket) Check(wanted Ticket) error {
	switch {
	case t.For != wanted.For:
		return denied("the ticket is for %s, and the connection is of %s", t.For, wanted.For)
	case t.Opens != wanted.Opens:
		return denied("the ticket is one to %s, and it takes one to %s", t.Opens, wanted.Opens)
	case t.Agent != wanted.Agent:
		return denied("the ticket is for agent %s, and this is %s", t.Agent, wanted.Agent)
	case t.Task != wanted.Task && (t.Task.Task != "" || t.Task.Framework == "" || t.Task.Framework != wanted.Task.Framework):
		return denied("the ticket is for %s, and not for %s", t.object(), wanted.object())
	}
	return nil
}

// object names for people what a ticket is for.
func (t Ticket) object() string {
	switch {
	case t.Task.Framework == "":
		return "the agent itself"
	case t.Task.Task == "":
		return "all tasks of " + string(t.Task.Framework)
	}
	return "task " + t.Task.String()
}

func denied(format string, args ...any) error {
	return api.E(op, api.Denied, "", fmt.Errorf(format, args...))
}
