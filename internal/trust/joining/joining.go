// Package joining gets a certificate from the masters: for a newcomer, with a token; for the holder of a certificate,
// before it expires. It asks the leader, for as long as its caller waits, and keeps nothing: callers store the pass.
package joining

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/lookout"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
)

const op = "trust.join"

const (
	// attemptMax limits one request to one master.
	attemptMax = 5 * time.Second
	// retryMin is about how long a renewal that has failed waits at first before the next try.
	retryMin = 30 * time.Second
	// retriesPerLife is how many of the first waits fit at least into the life of a certificate.
	retriesPerLife = 100
)

// Config says whom to ask, and for what.
type Config struct {
	// Masters are gRPC addresses of some masters.
	Masters []string
	// Dial opens connections. It must be set.
	Dial trust.Dial
	// Kinds are the kinds that a joiner can be. Masters refuse a token of another kind before they count a use of it.
	// None: any.
	Kinds []trust.Kind
	// Name is that of a joining agent or master. The name of others is in the token.
	Name string
	// Token, if it has an ID, lets a member that slept for longer than its certificate was valid join anew, with the
	// same name.
	Token trust.Token
	// Remedy says what a person has to do when the certificate has expired. Default: to join anew with a token.
	Remedy string
	// Hosts are names and addresses at which the member serves programs that know nothing of Tender: the certificates that
	// it renews name them. The first one, by a token, does not. It takes the grant sign-hosts.
	Hosts []string
	// Failed, if set, is called with why a master gave no certificate, unless it is the same as before.
	Failed func(address string, err error)
}

// Answer is what a joiner gets.
type Answer struct {
	Pass *trust.Pass
	// Key and Masters are set for a joining master: the cluster's key, and the members of the quorum by ID.
	Key     trust.Key
	Masters map[api.MasterID]string
}

// Join asks until the context ends, or until a master refuses in a way that asking again will not change. An agent with
// a pass that was signed before keeps its identity and gets a certificate for the same key.
func Join(ctx context.Context, config Config, token trust.Token, pass *trust.Pass) (Answer, error) {
	request, err := pass.Request()
	if err != nil {
		return Answer{}, err
	}
	dial := trust.JoinDialer(config.Dial, token.Digest)
	wish := &apiv1.SignRequest{Request: request, TokenId: token.ID, Secret: token.Secret, Name: config.Name}
	for _, kind := range config.Kinds {
		wish.Kinds = append(wish.Kinds, kind.String())
	}
	if pass.IsSigned() {
		wish.Ended = pass.Certificate().Raw
	}
	return ask(ctx, config, dial, pass, func(ctx context.Context, conn *grpc.ClientConn) (*apiv1.SignResponse, error) {
		return apiv1.NewTrustServiceClient(conn).Sign(ctx, wish)
	})
}

// Member joins with a token given as text, whose kind must be one of kinds, and returns the holder of the new
// certificate. It is kept only in memory: [Keep] renews it.
func Member(ctx context.Context, config Config, text string, kinds ...trust.Kind) (*trust.Holder, trust.Token, error) {
	token, err := trust.ParseToken(text)
	if err != nil {
		return nil, token, err
	}
	config.Kinds = kinds
	answer, err := Join(ctx, config, token, trust.NewPass())
	if err != nil {
		return nil, token, err
	}
	return trust.NewHolder(answer.Pass), token, nil
}

// Renew asks for another certificate with the same name, for as long as the present one is accepted. One that has
// expired is shown once more, because the masters' clocks may differ from ours. After that the error, of kind Denied,
// says that it has expired.
func Renew(ctx context.Context, config Config, holder *trust.Holder) (*trust.Pass, error) {
	pass, present := trust.NewPass(), holder.Pass()
	request, err := pass.Request()
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, max(time.Until(present.Ends()), 0)+attemptMax)
	defer cancel()
	answer, err := ask(asking, config, holder.Dialer(config.Dial, trust.Master), pass, func(ctx context.Context, conn *grpc.ClientConn) (*apiv1.SignResponse, error) {
		if len(config.Hosts) > 0 {
			return apiv1.NewOperatorServiceClient(conn).SignHosts(ctx, &apiv1.SignHostsRequest{Request: request, Hosts: config.Hosts})
		}
		return apiv1.NewTrustServiceClient(conn).Sign(ctx, &apiv1.SignRequest{Request: request})
	})
	if err != nil && ctx.Err() == nil && !time.Now().Before(present.Ends()) {
		err = config.ended(present, err)
	}
	return answer.Pass, err
}

// ended returns the error of a member whose certificate has expired and that could not get another one.
func (c Config) ended(present *trust.Pass, why error) error {
	return api.E(op, api.Denied, present.Identity().String(), fmt.Errorf("the certificate ended at %s, and masters let nobody in by it: %s (%w)",
		present.Ends().Format(time.RFC3339), cmp.Or(c.Remedy, "join anew, by a token"), why))
}

// signing is the call by which a master is asked to sign.
type signing = func(context.Context, *grpc.ClientConn) (*apiv1.SignResponse, error)

func ask(ctx context.Context, config Config, dial trust.Dial, pass *trust.Pass, call signing) (Answer, error) {
	seeker := lookout.NewSeeker(config.Masters)
	for {
		address := seeker.Address()
		answer, err := askAt(ctx, address, dial, call)
		if err == nil {
			return read(answer, pass)
		}
		if !api.Transient(err) {
			return Answer{}, err
		}
		if seeker.WorthSaying(err) && config.Failed != nil {
			config.Failed(address, err)
		}
		if !pause.For(ctx, seeker.Failed(err)) {
			return Answer{}, api.E(op, api.Unavailable, address, fmt.Errorf("no master has given a certificate: %w", err))
		}
	}
}

// askAt dials first, because the error of a handshake says more than the one of gRPC.
func askAt(ctx context.Context, address string, dial trust.Dial, call signing) (*apiv1.SignResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptMax)
	defer cancel()
	reached, err := dial(ctx, address)
	if err != nil {
		var known *api.Error
		if errors.As(err, &known) {
			return nil, err
		}
		return nil, api.E(op, api.Unavailable, address, err)
	}
	conn, err := transport.Connect(address, wire.Once(func(context.Context, string) (net.Conn, error) { return reached, nil }))
	if err != nil {
		return nil, errors.Join(err, reached.Close())
	}
	defer conn.Close()
	answer, err := call(ctx, conn)
	if err != nil {
		return nil, wire.Error(err)
	}
	return answer, nil
}

// read checks what a master has answered.
func read(answer *apiv1.SignResponse, pass *trust.Pass) (Answer, error) {
	leaf, err := x509.ParseCertificate(answer.GetCertificate())
	if err != nil {
		return Answer{}, api.E(op, api.Invalid, "", err)
	}
	var roots []*x509.Certificate
	for _, der := range answer.GetRoots() {
		root, err := x509.ParseCertificate(der)
		if err != nil {
			return Answer{}, api.E(op, api.Invalid, "", err)
		}
		roots = append(roots, root)
	}
	signed, err := pass.Signed(leaf, roots)
	if err != nil {
		return Answer{}, err
	}
	found := Answer{Pass: signed, Masters: map[api.MasterID]string{}}
	for _, peer := range answer.GetPeers() {
		found.Masters[api.MasterID(peer.GetId())] = peer.GetRaftAddress()
	}
	if len(answer.GetClusterKey()) > 0 {
		found.Key, err = trust.ParseKey(answer.GetClusterKey())
	}
	return found, err
}

// Keep renews the holder's pass at half of its life, or soon after the masters have changed their authority, until the
// context ends. kept is called with each new pass before others see it. If it fails, the old pass stays in use, and the
// renewal is tried again.
func Keep(ctx context.Context, holder *trust.Holder, config func() Config, kept func(*trust.Pass) error) {
	retry := firstRetry(holder.Pass())
	for wait := untilRenewal(holder.Pass()); awaitRenewal(ctx, wait, holder, config); {
		pass, err := renewOnce(ctx, holder, config())
		if err == nil {
			err = kept(pass)
		}
		if err != nil {
			if failed := config().Failed; failed != nil && ctx.Err() == nil {
				failed("", fmt.Errorf("the certificate, which ends at %s, was not renewed: %w", holder.Pass().Ends().Format(time.RFC3339), err))
			}
			wait, retry = retry/2+rand.N(retry/2), min(2*retry, trust.LookEvery(holder.Pass().Life()))
			continue
		}
		holder.Replace(pass)
		wait, retry = untilRenewal(pass), firstRetry(pass)
	}
}

// awaitRenewal waits until a renewal is due. It returns earlier if a master shows a certificate of another authority
// than the holder's own. It returns false if the context has ended.
func awaitRenewal(ctx context.Context, wait time.Duration, holder *trust.Holder, config func() Config) bool {
	// By the wall clock, which runs on while a machine sleeps.
	for until := time.Now().Round(0).Add(wait); ; {
		every := trust.LookEvery(holder.Pass().Life())
		look := every/2 + rand.N(every)
		if rest := time.Until(until); rest <= look {
			return pause.For(ctx, rest)
		}
		if !pause.For(ctx, look) {
			return false
		}
		if isOutdated(ctx, holder, config()) {
			return true
		}
	}
}

// isOutdated asks one master after the other, until one has shown its certificate, and says whether another authority
// has signed that.
func isOutdated(ctx context.Context, holder *trust.Holder, config Config) bool {
	for _, address := range config.Masters {
		looking, cancel := context.WithTimeout(ctx, attemptMax)
		shown, err := holder.Look(looking, config.Dial, address)
		cancel()
		if err == nil {
			return shown.Authority != holder.Pass().Authority()
		}
	}
	return false
}

// firstRetry is the longest wait before the first try after a failed one.
func firstRetry(p *trust.Pass) time.Duration { return min(retryMin, p.Life()/retriesPerLife) }

// renewMax limits one renewal with all its tries.
const renewMax = time.Minute

func renewOnce(ctx context.Context, holder *trust.Holder, config Config) (*trust.Pass, error) {
	ctx, cancel := context.WithTimeout(ctx, renewMax)
	defer cancel()
	if present := holder.Pass(); config.Token.ID != "" && !time.Now().Before(present.Ends()) {
		token := config.Token
		token.Digest = present.Authority() // another authority than when the token was made may sign by now
		pass := trust.NewPass()
		if present.Identity().Kind == trust.Agent {
			pass = present
		}
		answer, err := Join(ctx, config, token, pass)
		if err != nil && config.Remedy != "" && ctx.Err() == nil {
			err = config.ended(present, err)
		}
		if err != nil || len(config.Hosts) == 0 {
			return answer.Pass, err
		}
		holder = trust.NewHolder(answer.Pass)
	}
	return Renew(ctx, config, holder)
}

// untilRenewal returns how long to wait until half of a pass's life is over, plus a random time of up to a tenth of the
// life, so that thousands that joined together do not renew together.
func untilRenewal(p *trust.Pass) time.Duration {
	rest := time.Until(p.RenewAt())
	if rest <= 0 {
		return pause.Soonest
	}
	spread := p.Ends().Sub(p.RenewAt()) / 5
	return rest + rand.N(spread)
}
