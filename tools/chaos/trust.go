package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/testing/chaos"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// What is done to certificates is no fault, and nobody may notice it: it breaks no stream that is not meant to break.

// try does one of these things. Renewals: everybody gets a new certificate. Rotation: another authority follows, with a
// short overlap. back is a rotation while an agent is away, which comes back before the former authority ends. Revoked
// are a token with which others have joined, and a principal with a running framework. A stranger has the network and
// nothing else.
func try(s *stage, _ *node, f chaos.Fault) (end func() error, err error) {
	return nil, s.trust.try(s.ctx, f, s.r)
}

func (c *certified) try(ctx context.Context, f chaos.Fault, r *report) error {
	switch f.Do.Whom() {
	case "renewals":
		return c.unbroken(ctx, f, 0, r, c.awaitRenewals)
	case "rotation":
		if err := c.unbroken(ctx, f, 0, r, func(ctx context.Context) error {
			return c.rotate(ctx, func() error { return nil })
		}); err != nil {
			return err
		}
		return c.afterRotation(ctx)
	case "back":
		away := c.agents[f.Of(len(c.agents))]
		if err := c.unbroken(ctx, f, 1, r, func(ctx context.Context) error { return c.rotateWithout(ctx, away, f.For) }); err != nil {
			return err
		}
		return c.afterRotation(ctx)
	case "token":
		return c.unbroken(ctx, f, 0, r, func(ctx context.Context) error { return c.revokeTokens(ctx, r) })
	case "principal":
		return c.unbroken(ctx, f, 0, r, func(ctx context.Context) error { return c.revokeFramework(ctx, r) })
	}
	return c.unbroken(ctx, f, 0, r, func(ctx context.Context) error { return c.comeAsStranger(ctx, r) })
}

// unbroken does something during which no more streams may end than are meant to. If the leader changes on a busy
// machine, all streams end: then they are not judged.
func (c *certified) unbroken(ctx context.Context, f chaos.Fault, meant int, r *report, do func(context.Context) error) error {
	var before, after map[string]int
	var leader, term string
	count := func(into *map[string]int) error {
		return c.await(ctx, "the masters' metrics", c.options.heal, func(ctx context.Context) string {
			said := c.atLeader(ctx, func(ctx context.Context, m *node) (err error) {
				*into, err = c.sessionsEndedAt(ctx, m)
				return err
			})
			leader, term = c.term(ctx)
			return said
		})
	}
	if err := count(&before); err != nil {
		return err
	}
	ledBy := leader + " in term " + term
	if err := errors.Join(do(ctx), count(&after)); err != nil {
		return err
	}
	broke, which := 0, ""
	for _, labels := range slices.Sorted(maps.Keys(after)) {
		if n := after[labels] - before[labels]; n > 0 {
			broke, which = broke+n, fmt.Sprintf("%s; %d at %s", which, n, labels)
		}
	}
	if now := leader + " in term " + term; now != ledBy {
		r.trust.unjudged++
		return nil
	}
	if r.trust.streams += broke; broke > meant {
		r.broken = append(r.broken, fmt.Sprintf("%s has ended %d streams; %d were meant to end%s", f.Do, broke, meant, which))
	}
	r.trust.meant += min(broke, meant)
	return nil
}

// sessionsEndedAt returns how many sessions of agents and schedulers a leader has seen end, by its metrics.
func (c *certified) sessionsEndedAt(ctx context.Context, m *node) (map[string]int, error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return c.dialMaster(ctx, address) },
	}}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.http+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the metrics of %s: %s: %s", m.name, answer.Status, text)
	}
	return sessionsEnded(text), nil
}

// sessionsEnded returns these numbers by the labels of the metric, which name the method and the kind of the error. It
// leaves out those that looked for a leader, or were refused.
func sessionsEnded(metrics []byte) map[string]int {
	ended := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	for lines.Scan() {
		labels, value, isCount := strings.Cut(strings.TrimPrefix(lines.Text(), "tender_calls_total{"), "} ")
		if !isCount || !strings.HasPrefix(lines.Text(), "tender_calls_total{") || !strings.Contains(labels, "/Session\"") ||
			strings.Contains(labels, fmt.Sprintf("kind=%q", api.NotLeader)) || strings.Contains(labels, fmt.Sprintf("kind=%q", api.Denied)) {
			continue
		}
		if n, err := strconv.Atoi(value); err == nil {
			ended[labels] = n
		}
	}
	return ended
}

// shown returns the certificates that can be looked at: masters show theirs, agents have theirs in their folders, and
// the operator's is ours.
func (c *certified) shown(ctx context.Context) (map[string]shownPass, error) {
	all := map[string]shownPass{}
	for _, m := range c.masters {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		shown, err := c.holder.Look(ctx, transport.DialTCP, m.proxies[0].front)
		cancel()
		if err != nil {
			return nil, err
		}
		all[m.name] = shownPass{shown.Ends, shown.Authority}
	}
	for _, a := range c.agents {
		pass, err := trust.ReadPass(filepath.Join(c.dir, a.name, "certificate.pem"))
		if err != nil {
			return nil, err
		}
		all[a.name] = shownPass{pass.Ends(), pass.Authority()}
	}
	pass := c.holder.Pass()
	all["the operator"] = shownPass{pass.Ends(), pass.Authority()}
	return all, nil
}

type shownPass struct {
	ends      time.Time
	authority trust.Digest
}

// renewedBySchedulers returns how many certificates the masters have renewed for schedulers, by their logs.
func (c *certified) renewedBySchedulers() (sum int, err error) {
	for _, m := range c.masters {
		log, err := os.ReadFile(filepath.Join(c.dir, m.name+".log"))
		if err != nil {
			return 0, err
		}
		for line := range bytes.Lines(log) {
			if bytes.Contains(line, []byte("certificate signed")) && bytes.Contains(line, []byte("/framework/chaos\"")) &&
				bytes.Contains(line, []byte(`"token":""`)) {
				sum++
			}
		}
	}
	return sum, nil
}

// passes are the certificates at one time.
type passes struct {
	shown  map[string]shownPass
	signed int // how many were renewed for schedulers
}

func (c *certified) passes(ctx context.Context) (now passes, err error) {
	return now, c.await(ctx, "a look at all certificates", 0, func(ctx context.Context) string {
		var err error
		if now.shown, err = c.shown(ctx); err == nil {
			now.signed, err = c.renewedBySchedulers()
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// awaitOthers waits until everybody's certificate has changed as other says, and each scheduler has got a new one.
// Being slow is no failure: a certificate that is renewed too late expires, and is never replaced.
func (c *certified) awaitOthers(ctx context.Context, what string, before passes, other func(now, before shownPass) bool) error {
	return c.await(ctx, what, 0, func(ctx context.Context) string {
		now, err := c.shown(ctx)
		if err != nil {
			return err.Error()
		}
		for name, its := range now { // order: irrelevant because one that is late is enough
			if !other(its, before.shown[name]) {
				return name + " shows the same as before"
			}
		}
		signed, err := c.renewedBySchedulers()
		if got := signed - before.signed; err != nil || got < len(c.schedulers) {
			return fmt.Sprintf("%d of %d schedulers have another certificate (%v)", got, len(c.schedulers), err)
		}
		return ""
	})
}

func (c *certified) awaitRenewals(ctx context.Context) error {
	before, err := c.passes(ctx)
	if err != nil {
		return err
	}
	return c.awaitOthers(ctx, "everybody's renewal", before, func(now, before shownPass) bool { return now.ends.After(before.ends) })
}

// overlapsPerLife: the overlap of two authorities is the life of a certificate divided by it.
const overlapsPerLife = 3

// rotate makes another authority follow, does something meanwhile, and returns when the former authority has ended.
// Before that everybody must have a certificate of the next one.
func (c *certified) rotate(ctx context.Context, meanwhile func() error) error {
	before, err := c.passes(ctx)
	if err != nil {
		return err
	}
	overlap := max(trust.Lives{Agents: c.life, Others: c.life}.OverlapMin(), c.life/overlapsPerLife)
	if err := c.await(ctx, "another authority", 0, func(ctx context.Context) string {
		said := c.tender(ctx, "ca", "rotate", "--overlap", overlap.String())
		if strings.Contains(said, "two at a time are enough") {
			return "" // an earlier try has done it
		}
		return said
	}); err != nil {
		return err
	}
	if err := meanwhile(); err != nil {
		return err
	}
	if err := c.awaitOthers(ctx, "everybody's certificate of the next authority", before, func(now, before shownPass) bool {
		return now.authority != before.authority
	}); err != nil {
		return err
	}
	return c.await(ctx, "the end of the former authority", 0, func(ctx context.Context) string {
		return c.atLeader(ctx, func(ctx context.Context, m *node) error {
			view, err := c.operator(m).GetAuthority(ctx, &apiv1.GetAuthorityRequest{})
			if err == nil && view.GetFormerEnds() != nil {
				err = fmt.Errorf("it ends at %v", view.GetFormerEnds().AsTime())
			}
			return err
		})
	})
}

// rotateWithout does that while an agent is away.
func (c *certified) rotateWithout(ctx context.Context, away *node, hold time.Duration) error {
	away.kill(syscall.SIGKILL)
	return c.rotate(ctx, func() error {
		pause(ctx, hold)
		return away.start()
	})
}

// afterRotation makes everybody connect to another leader, which does not accept the former authority any more.
// Schedulers that start from now on have a token of the next one.
func (c *certified) afterRotation(ctx context.Context) error {
	if err := c.renewSchedulerToken(ctx); err != nil {
		return err
	}
	return c.handOver(ctx)
}

// revokeTokens checks that those who have joined with a revoked token stay, and that nobody else can join with it.
func (c *certified) revokeTokens(ctx context.Context, r *report) error {
	made, err := c.newToken(ctx, &apiv1.CreateTokenRequest{Kind: "operator", Principal: fmt.Sprint("ann-", time.Now().UnixNano())})
	if err != nil {
		return err
	}
	token, err := trust.ParseToken(made.GetToken())
	if err != nil {
		return err
	}
	pass, err := c.join(ctx, token)
	if err != nil {
		return err
	}
	former := c.frame
	if err := c.renewSchedulerToken(ctx); err != nil {
		return err
	}
	for _, id := range []string{token.ID, former} {
		if err := c.await(ctx, "the end of token "+id, c.options.heal, func(ctx context.Context) string { return c.tender(ctx, "token", "revoke", id) }); err != nil {
			return err
		}
	}
	if _, err := c.join(ctx, token); !api.Is(err, api.Denied) {
		r.broken = append(r.broken, fmt.Sprintf("by a token that was revoked: %v", err))
	}
	renewed, err := joining.Renew(ctx, c.joining(), trust.NewHolder(pass))
	if !time.Now().Before(pass.Ends()) { // the machine is too busy for such a short life
		r.trust.unjudged++
		return nil
	}
	if err != nil {
		r.broken = append(r.broken, fmt.Sprintf("who had joined by a token that was revoked gets no other certificate: %v", err))
		return nil
	}
	return c.await(ctx, "an answer to who has joined by the token", c.options.heal, func(ctx context.Context) string {
		return c.atLeader(ctx, func(ctx context.Context, m *node) error {
			conn, err := transport.Connect(m.proxies[0].front, trust.NewHolder(renewed).Dialer(transport.DialTCP, trust.Master))
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = apiv1.NewOperatorServiceClient(conn).ListTokens(ctx, &apiv1.ListTokensRequest{})
			return err
		})
	})
}
