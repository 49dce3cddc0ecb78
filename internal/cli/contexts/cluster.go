package contexts

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tenderhq/tender/internal/joining"
	"github.com/tenderhq/tender/internal/nearby"
	"github.com/tenderhq/tender/internal/transport"
	"github.com/tenderhq/tender/internal/trust"
)

// TokenVariable holds the token of a command that has no context, or of a framework.
const TokenVariable = "TENDER_TOKEN"

// Wish says which cluster a command is about.
type Wish struct {
	// Context was named on the command line, or "".
	Context string
	// Masters were named, or none.
	Masters []string
	// Master is where a token is tried when nothing is named.
	Master string
	// Lookup reads the environment.
	Lookup func(string) (string, bool)
	// Dial opens connections. Default TCP.
	Dial trust.Dial
}

// Cluster is where a command goes, and who it is there.
type Cluster struct {
	Masters []string      // none: the default
	Holder  *trust.Holder // nil: nobody is asked
	dial    trust.Dial    // as it is, without proofs
	near    nearby.Users  // whose clusters of `tender dev` it may be; none where masters are not reached over this machine's network
	again   string        // what to do when another cluster has its place
	renewal joining.Config
	renewed func(*trust.Pass) error
	// Told keeps for the next command which masters there are; nil where no context was used.
	Told func(masters []string)
}

// Keep keeps the certificate from ending while a command runs, until the context ends.
func (c Cluster) Keep(ctx context.Context) {
	if c.Holder != nil {
		joining.Keep(ctx, c.Holder, func() joining.Config { return c.renewal }, c.renewed)
	}
}

// ToMasters reaches masters, and nobody else.
func (c Cluster) ToMasters() trust.Dial {
	return c.near.Dialer(c.Holder.Dialer(c.dial, trust.Master), c.again)
}

// ToAgents reaches agents, and nobody else.
func (c Cluster) ToAgents() trust.Dial { return c.Holder.Dialer(c.dial, trust.Agent) }

// Of is the folder of whom the environment is; "" where it names none.
func Of(lookup func(string) (string, bool)) Folder {
	if dir, ok := lookup("XDG_CONFIG_HOME"); ok && dir != "" {
		return Folder(filepath.Join(dir, "tender", "contexts"))
	}
	if home, ok := lookup("HOME"); ok && home != "" {
		return Folder(filepath.Join(home, ".config", "tender", "contexts"))
	}
	return ""
}

// Find is the cluster of the named context, else that of TENDER_TOKEN, else the one that this user runs by `tender dev` on
// this machine if it has one of the named masters, else of the context that has one, else of the chosen context. When nothing
// is named or chosen it is the one of `tender dev` at the default address, if there is one.
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
	token, _ := trust.ParseToken(chosen.Token) // without one it is renewed in time, or not at all
	found.renewal = joining.Config{Masters: found.Masters, Dial: found.dial, Token: token}
	found.renewed = func(pass *trust.Pass) error { return folder.Renewed(name, pass) }
	// A folder that takes nothing does not keep a command from its work; the next one is told again.
	found.Told = func(masters []string) { _ = folder.Told(name, masters) }
	return found, nil
}

// meant is which context is used, "" for none.
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

// Nearby is the token of the cluster with these masters that this user runs by `tender dev`; "" none.
func (w Wish) Nearby(masters []string) string {
	if w.Dial != nil { // no master is reached over this machine's network
		return ""
	}
	return nearby.Token(nearby.UsersOf(w.Lookup), masters)
}

// joinByToken joins by the token of the environment, else by that of a cluster on this machine, if there is one.
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
	pass, err := Join(ctx, masters, c.dial, token, nil)
	if err == nil {
		c.Holder, c.renewal = trust.NewHolder(pass), joining.Config{Masters: masters, Dial: c.dial, Token: token}
		c.renewed = func(*trust.Pass) error { return nil }
	}
	return err
}
