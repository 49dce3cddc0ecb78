package ticket_test

import (
	"crypto/x509"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/trust/ticket"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// cluster makes passes.
type cluster struct{ authority *trust.Authority }

func newCluster(t *testing.T) cluster {
	t.Helper()
	authority, err := trust.NewKey().Authority()
	if err != nil {
		t.Fatal(err)
	}
	return cluster{authority}
}

func (c cluster) pass(t *testing.T, kind trust.Kind, name string) *trust.Pass {
	t.Helper()
	pass, err := c.authority.Issue(trust.Identity{Kind: kind, Name: name}, now)
	if err != nil {
		t.Fatal(err)
	}
	return pass
}

func (c cluster) ann() trust.Identity {
	return trust.Identity{Cluster: c.authority.Cluster(), Kind: trust.Person, Name: "ann"}
}

func (c cluster) ticket() ticket.Ticket {
	return ticket.Ticket{For: c.ann(), Opens: rights.TicketToRead, Agent: "a1", Task: api.TaskRef{Framework: "f1", Task: "t1"}}
}

func sign(t *testing.T, by *trust.Pass, one ticket.Ticket) string {
	t.Helper()
	word, err := ticket.Sign(by, one, now)
	if err != nil {
		t.Fatal(err)
	}
	return word
}

// An agent reads from a ticket what the leader has signed, for as long as it lives and the clocks may differ.
func TestATicketIsReadAsItWasSigned(t *testing.T) {
	c := newCluster(t)
	agent := c.pass(t, trust.Agent, "nonce")
	word := sign(t, c.pass(t, trust.Master, "m1"), c.ticket())
	if len(word) > 2000 {
		t.Errorf("it has %d bytes", len(word))
	}
	for _, at := range []time.Duration{-ticket.ClocksApart, 0, ticket.Life, ticket.Life + ticket.ClocksApart - time.Second} {
		read, err := ticket.Read(agent, word, now.Add(at))
		signed := read.Signed
		if read.Signed = (time.Time{}); err != nil || read != c.ticket() || !signed.Equal(now) {
			t.Errorf("at %v it is read as %+v, %v", at, read, err)
		}
	}
	for at, why := range map[time.Duration]string{
		-ticket.ClocksApart - time.Second:              "begins at 2026-03-01T12:00:00Z, and it is 2026-03-01T11:58:59Z by this agent's clock",
		ticket.Life + ticket.ClocksApart + time.Second: "ended at 2026-03-01T12:05:00Z, and it is 2026-03-01T12:06:01Z by this agent's clock",
	} {
		_, err := ticket.Read(agent, word, now.Add(at))
		refused(t, err, why)
	}
}

func refused(t *testing.T, err error, why string) {
	t.Helper()
	if !api.Is(err, api.Denied) || !strings.Contains(err.Error(), why) {
		t.Errorf("it is refused with %v, want %s", err, why)
	}
}

// A ticket that is made within the same second in which earlier ones were made void counts as signed after that.
func TestATicketKnowsItsMoment(t *testing.T) {
	c := newCluster(t)
	moment := now.Add(400*time.Millisecond + 1)
	word, err := ticket.Sign(c.pass(t, trust.Master, "m1"), c.ticket(), moment)
	if err != nil {
		t.Fatal(err)
	}
	if read, err := ticket.Read(c.pass(t, trust.Agent, "nonce"), word, now.Add(time.Second)); err != nil || !read.Signed.Equal(moment) {
		t.Errorf("signed at %v, %v", read.Signed, err)
	}
}

// forged returns a ticket of somebody who may not sign: with the key of one pass and the certificate of another.
func forged(t *testing.T, method jwt.SigningMethod, key any, shown *x509.Certificate, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	if shown != nil {
		token.Header["x5c"] = []string{base64.StdEncoding.EncodeToString(shown.Raw)}
	}
	word, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return word
}

func TestWhatNoLeaderHasSignedIsRefused(t *testing.T) {
	c, other := newCluster(t), newCluster(t)
	agent, m1, ann := c.pass(t, trust.Agent, "nonce"), c.pass(t, trust.Master, "m1"), c.pass(t, trust.Person, "ann")
	good := sign(t, m1, c.ticket())
	signature := good[strings.LastIndexByte(good, '.')+1:]
	claims := func(by string) jwt.MapClaims {
		return jwt.MapClaims{"iss": by, "sub": c.ann().String(), "aud": "a1", "exp": now.Add(time.Hour).Unix(), "opens": "exec", "framework": "f1", "task": "t1"}
	}
	master := m1.Identity().String()
	endless := claims(master)
	delete(endless, "exp")
	for name, test := range map[string]struct{ word, why string }{
		"of another cluster":      {sign(t, other.pass(t, trust.Master, "m1"), c.ticket()), "it is of cluster " + other.authority.Cluster()},
		"signed by a person":      {sign(t, ann, c.ticket()), "and only masters give tickets"},
		"signed by an agent":      {sign(t, agent, c.ticket()), "and only masters give tickets"},
		"with a stolen name":      {forged(t, jwt.SigningMethodES256, ann.Key(), m1.Certificate(), claims(master)), "not signed by the master"},
		"in another's name":       {forged(t, jwt.SigningMethodES256, m1.Key(), m1.Certificate(), claims("spiffe://x/master/m2")), "says that it is by another"},
		"without a certificate":   {forged(t, jwt.SigningMethodES256, m1.Key(), nil, claims(master)), "does not show the certificate"},
		"without an end":          {forged(t, jwt.SigningMethodES256, m1.Key(), m1.Certificate(), endless), "no ticket"},
		"unsigned":                {forged(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, m1.Certificate(), claims(master)), "not signed"},
		"with the key as a word":  {forged(t, jwt.SigningMethodHS256, m1.Certificate().RawSubjectPublicKeyInfo, m1.Certificate(), claims(master)), "not signed"},
		"with a false signature":  {strings.TrimSuffix(good, signature) + strings.Repeat("A", len(signature)), "not signed by the master"},
		"cut off":                 {good[:len(good)/2], "no ticket"},
		"too long":                {good + strings.Repeat("A", 8<<10), "none has more than"},
		"nothing":                 {"", "no ticket"},
		"with a broken signature": {good + "!", "no ticket"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ticket.Read(agent, test.word, now)
			refused(t, err, test.why)
		})
	}
}

func TestATicketOpensOneThing(t *testing.T) {
	c := newCluster(t)
	for _, test := range []struct {
		edit   func(ticket, wanted *ticket.Ticket)
		refuse string
	}{
		{func(_, _ *ticket.Ticket) {}, ""},
		{func(have, _ *ticket.Ticket) { have.Task.Task = "" }, ""},
		{func(_, wanted *ticket.Ticket) { wanted.For.Name = "bob" }, "is for spiffe://" + c.authority.Cluster() + "/person/ann"},
		{func(_, wanted *ticket.Ticket) { wanted.For = trust.Identity{} }, "and the connection is of nobody"},
		{func(_, wanted *ticket.Ticket) { wanted.Opens = rights.TicketToExec }, "is one to read, and it takes one to exec"},
		{func(_, wanted *ticket.Ticket) { wanted.Agent = "a2" }, "is for agent a1, and this is a2"},
		{func(_, wanted *ticket.Ticket) { wanted.Task.Task = "t2" }, "is for task f1/t1, and not for task f1/t2"},
		{func(_, wanted *ticket.Ticket) { wanted.Task = api.TaskRef{} }, "is for task f1/t1, and not for the agent itself"},
		{func(have, _ *ticket.Ticket) { have.Task = api.TaskRef{} }, "is for the agent itself, and not for task f1/t1"},
		{func(have, wanted *ticket.Ticket) { have.Task.Task, wanted.Task.Framework = "", "f2" }, "is for all tasks of f1, and not for task f2/t1"},
	} {
		have, wanted := c.ticket(), c.ticket()
		test.edit(&have, &wanted)
		if err := have.Check(wanted); test.refuse != "" {
			refused(t, err, test.refuse)
		} else if err != nil {
			t.Error(err)
		}
	}
}

// TestATicketCountsWhileTwoAuthoritiesDo: an agent with a certificate of the former authority accepts a ticket of a
// master with one of the new authority.
func TestATicketCountsWhileTwoAuthoritiesDo(t *testing.T) {
	c := newCluster(t)
	agent := c.pass(t, trust.Agent, "a1")
	fresh, err := trust.NewAuthority(c.authority.Cluster())
	if err == nil {
		c.authority, err = fresh.After(c.authority, now, now.Add(24*time.Hour))
	}
	if err != nil {
		t.Fatal(err)
	}
	word := sign(t, c.pass(t, trust.Master, "m1"), c.ticket())
	read, err := ticket.Read(agent, word, now)
	if read.Signed = (time.Time{}); err != nil || read != c.ticket() {
		t.Errorf("it is read as %+v, %v", read, err)
	}
}
