// Package membership manages the agent's certificate, which identifies it to its cluster: how it is obtained with a
// token, kept in the agent's folder, and renewed in time. Without a certificate the agent shows none and checks
// nobody's.
package membership

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
)

// PassFile is the file in the data folder that holds the agent's key and certificate.
const PassFile = "certificate.pem"

// Config says which agent it is, and how it joins.
type Config struct {
	// Folder is the agent's data folder. "": it has none, and no membership.
	Folder string
	// Token lets the agent join. "": it does not join.
	Token   string
	Masters []string
	Dial    trust.Dial
	// Random makes the name of a new agent.
	Random func() string
	// Admitted returns the ID of the agent that the folder belongs to, or "".
	Admitted func() (api.AgentID, error)
	Logger   zerolog.Logger
}

// Membership is the membership of one agent. A nil one, or one without a certificate, shows nothing.
type Membership struct {
	config Config
	holder *trust.Holder // nil: the agent has no certificate
}

// Prove finds the certificate in the folder, or joins with the token. It tries for as long as that takes.
func Prove(ctx context.Context, config Config) (*Membership, error) {
	const op = "agent.join"
	m := &Membership{config: config}
	if config.Folder == "" {
		return m, nil
	}
	pass, err := trust.ReadPass(m.file())
	if err != nil {
		return nil, err
	}
	switch {
	case pass.IsSigned() && time.Now().Before(pass.Ends()):
	case config.Token != "":
		if pass, err = m.join(ctx, pass); err != nil {
			return nil, err
		}
	case pass.IsSigned():
		return nil, api.E(op, api.Denied, config.Folder, fmt.Errorf("the certificate of this agent ended at %s; to go on as the same agent, %s",
			pass.Ends().Format(time.RFC3339), howToComeBack))
	default:
		return m, nil
	}
	m.holder = trust.NewHolder(pass)
	return m, nil
}

const (
	howToJoinAnew = "start it with an empty data folder and --join FILE, as a new agent; an operator gives the token: tender token create agent -o FILE"
	howToComeBack = "start it once more with --join FILE; an operator gives the token: tender token create agent -o FILE"
)

func (m *Membership) file() string { return filepath.Join(m.config.Folder, PassFile) }

// Holder returns the holder of the certificate; nil: there is none.
func (m *Membership) Holder() *trust.Holder {
	if m == nil {
		return nil
	}
	return m.holder
}

// Nonce returns the nonce for a first contact: the name in the certificate, so that nobody else can be this agent (R7).
func (m *Membership) Nonce() api.Nonce {
	if m.Holder() == nil {
		return api.Nonce(m.config.Random())
	}
	return api.Nonce(m.holder.Pass().Identity().Name)
}

// join asks for a certificate. Its key is in the folder before anybody is told of it. If the agent's certificate has
// expired, it is shown, and the agent keeps its identity. If no master has ever admitted the agent, it is a new one.
func (m *Membership) join(ctx context.Context, pass *trust.Pass) (*trust.Pass, error) {
	const op = "agent.join"
	token, err := trust.ParseToken(m.config.Token)
	if err != nil {
		return nil, err
	}
	admitted, err := m.config.Admitted()
	if err != nil {
		return nil, err
	}
	back := admitted != "" && pass.IsSigned()
	if admitted != "" && !back {
		return nil, api.E(op, api.Exists, m.config.Folder, fmt.Errorf("the folder is that of %s, which has no certificate; %s", admitted, howToJoinAnew))
	}
	if !back && (pass == nil || pass.IsSigned()) {
		pass = trust.NewPass()
		if err := trust.WritePass(m.file(), pass); err != nil {
			return nil, err
		}
	}
	config := m.joining()
	config.Name, config.Kinds = m.config.Random(), []trust.Kind{trust.Agent}
	answer, err := joining.Join(ctx, config, token, pass)
	if err != nil && back && ctx.Err() == nil {
		return nil, api.E(op, api.KindOf(err), m.config.Folder, fmt.Errorf("the certificate of %s ended at %s, and it can't have another one: %w; if it can't go on as the same agent, %s",
			admitted, pass.Ends().Format(time.RFC3339), err, howToJoinAnew))
	}
	if err != nil {
		return nil, err
	}
	m.config.Logger.Info().Stringer("identity", answer.Pass.Identity()).Time("ends", answer.Pass.Ends()).Msg("joined")
	return answer.Pass, trust.WritePass(m.file(), answer.Pass)
}

func (m *Membership) joining() joining.Config {
	token, _ := trust.ParseToken(m.config.Token) // without a readable token it comes back without one
	return joining.Config{
		Masters: m.config.Masters, Dial: m.config.Dial, Token: token, Remedy: howToComeBack,
		Failed: func(address string, err error) {
			m.config.Logger.Warn().Str("master", address).Err(err).Msg("no certificate yet; asking again")
		},
	}
}

// Keep renews the certificate in time, until the context ends.
func (m *Membership) Keep(ctx context.Context) {
	if m.Holder() == nil {
		return
	}
	joining.Keep(ctx, m.holder, m.joining, func(pass *trust.Pass) error { return trust.WritePass(m.file(), pass) })
}

// BeginAnew forgets a certificate that is void because its agent was marked gone, and joins as another agent with the
// token, if there is one. Without certificates there is nothing to do.
func (m *Membership) BeginAnew(ctx context.Context) error {
	if m.Holder() == nil {
		return nil
	}
	if m.config.Token == "" {
		return m.gone(errors.New("start it with --join FILE to join as a new one"))
	}
	pass, err := m.join(ctx, nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return err // the agent stops, and joins at its next start
	case err != nil:
		return m.gone(fmt.Errorf("it can't join as a new one: %w", err))
	}
	m.holder.Replace(pass)
	return nil
}

// gone ends an agent that does not begin anew. Its folder is then as if the agent had never joined.
func (m *Membership) gone(next error) error {
	err := fmt.Errorf("this agent was marked gone, and its certificate counts no more; %w", next)
	return errors.Join(api.E("agent.run", api.Removed, m.config.Folder, err), os.Remove(m.file()))
}
