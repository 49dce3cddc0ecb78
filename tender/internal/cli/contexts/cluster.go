package contexts

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
	"github.com/tenderhq/tender/internal/trust/nearby"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// TokenVariable is the environment variable with the token of a command without a context, or of a framework.
const TokenVariable = "TENDER_TOKEN"

// Wish says which cluster a command is about.
type Wish struct {
	// Context is the context that was named on the command line, or "".
	Context string
	// Masters are the masters that were named, if any.
	Masters []string
	// Master is the address at which a token is tried if no master is named.
	Master string
	// Lookup reads the environment.
	Lookup func(string) (string, bool)
	// Dial opens connections. Default TCP.
	Dial trust.Dial
	// Waits, if set, is called with why no master gives a certificate yet.
	Waits func(error)
}

// Cluster says where a command goes, and who it is there.
type Cluster struct {
	Masters []string      // none: the default master
	Holder  *trust.Holder // nil: no identity
	dial    trust.Dial    // without TLS
	near    nearby.Users  // whose clusters of `tender dev` it may be; none where masters are not reached over this machine's network
	again   string        // what to do when another cluster has taken its place
	renewal joining.Config
	renewed func(*trust.Pass) error
	// Told stores which masters there are, for the next command; nil if no context is used.
	Told func(masters []string)
}

// Keep renews the certificate in time while a command runs, until the context ends.
func (c Cluster) Keep(ctx context.Context) {
	if c.Holder != nil {
		joining.Keep(ctx, c.Holder, func() joining.Config { return c.renewal }, c.renewed)
	}
}

// ToMasters returns a dialer that reaches masters and refuses everybody else.
func (c Cluster) ToMasters() trust.Dial {
	return c.near.Dialer(c.Holder.Dialer(c.dial, trust.Master), c.again)
}

// ToAgents returns a dialer that reaches agents and refuses everybody else.
func (c Cluster) ToAgents() trust.Dial { return c.Holder.Dialer(c.dial, trust.Agent) }

// Of returns the folder of contexts, by the environment; "" if the environment names none.
func Of(lookup func(string) (string, bool)) Folder {
	if dir, ok := lookup("XDG_CONFIG_HOME"); ok && dir != "" {
		return Folder(filepath.Join(dir, "tender", "contexts"))
	}
	if home, ok := lookup("HOME"); ok && home != "" {
		return Folder(filepath.Join(home, ".config", "tender", "contexts"))
	}
	return ""
}

// Find returns the cluster for a command. It is that of the named context, else that of TENDER_TOKEN, else the cluster
// of `tender dev` that this user runs here, if that has one of the named masters, else that of the context that has
// one, else that of the chosen context. If nothing is named or chosen, it is the cluster of `tender dev` at the default
// address, if there is one.
func Find(ctx context.Context, wish Wish) (Cluster, error) {
	found := Cluster{Masters: wish.Masters, dial: wish.Dial, again: "give the command again, and it goes to the new one"}
	if found.dial == nil {
		found.dial, found.near = transport.DialTCP, nearby.UsersOf(wish.Lookup)
	}
	folder := Of(wish.Lookup)
	name, err := folder.meant(wish)
	if err != nil {
		return found, err
	}
	if name == "" {
		if all := nearby.Masters(found.near, nil, wish.Master); len(found.Masters) == 0 && len(all) > 1 {
			found.Masters = all
		}
		return found, found.joinByToken(ctx, wish)
	}
	chosen, err := folder.Read(name)
	if err != nil {
		return found, err
	}
	if len(found.Masters) == 0 {
		found.Masters = chosen.Masters
	}
	found.again = fmt.Sprintf("context %s leads to the one that has ended; to go to the new one name it: --master %s without --context and TENDER_CONTEXT",
		name, strings.Join(found.Masters, ","))
	pass, err := folder.Pass(ctx, chosen, found.Masters, found.dial)
	if err != nil {
		return found, fmt.Errorf("context %s: %w", name, err)
	}
	found.Holder = trust.NewHolder(pass)
	token, _ := trust.ParseToken(chosen.Token) // without a token it is renewed in time, or not at all
	found.renewal = joining.Config{Masters: found.Masters, Dial: found.dial, Token: token}
	found.renewed = func(pass *trust.Pass) error { return folder.Renewed(name, pass) }
	// A folder that can't be written does not keep a command from its work; the next command is told again.
	found.Told = func(masters []string) { _ = folder.Told(name, masters) }
	return found, nil
}

// meant returns the name of the context that is used; "" for none.
func (f Folder) meant(wish Wish) (string, error) {
	if wish.Context != "" {
		return wish.Context, nil
	}
	if name, ok := wish.Lookup("TENDER_CONTEXT"); ok && name != "" {
		return name, nil
	}
	if token, ok := wish.Lookup(TokenVariable); ok && token != "" || f == "" {
		return "", nil
	}
	if len(wish.Masters) > 0 && wish.Nearby(wish.Masters) != "" {
		return "", nil
	}
	if len(wish.Masters) > 0 {
		return f.Having(wish.Masters)
	}
	return f.Current()
}

// Nearby returns the token of the cluster with these masters that this user runs by `tender dev`; "" if there is none.
func (w Wish) Nearby(masters []string) string {
	if w.Dial != nil { // masters are not reached over this machine's network
		return ""
	}
	return nearby.Token(nearby.UsersOf(w.Lookup), masters)
}

// joinByToken joins with the token of the environment, else with that of a cluster on this machine, if there is one.
func (c *Cluster) joinByToken(ctx context.Context, wish Wish) error {
	masters := c.Masters
	if len(masters) == 0 {
		masters = []string{wish.Master}
	}
	text, ok := wish.Lookup(TokenVariable)
	if !ok || text == "" {
		text = wish.Nearby(masters)
	}
	if text == "" {
		return nil
	}
	token, err := trust.ParseToken(text)
	if err != nil {
		return fmt.Errorf("%s: %w", TokenVariable, err)
	}
	pass, err := Join(ctx, masters, c.dial, token, func(address string, err error) {
		if len(c.Masters) == 0 {
			err = fmt.Errorf("no master is named (--master HOST:PORT, or TENDER_MASTER), and %s gives no certificate: %w", address, err)
		}
		if wish.Waits != nil {
			wish.Waits(err)
		}
	})
	if err == nil {
		c.Holder, c.renewal = trust.NewHolder(pass), joining.Config{Masters: masters, Dial: c.dial, Token: token}
		c.renewed = func(*trust.Pass) error { return nil }
	}
	return err
}
