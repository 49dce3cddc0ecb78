package master

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/internal/registrar"
	"github.com/tenderhq/tender/master/registry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// proof is how this master proves who it is to its peers, how they prove it to this one, and, while it leads, whose
// certificates are signed.
type proof struct {
	config    *Config
	log       *zerolog.Logger
	raft      *raftlog.Log
	listeners *listeners
	leading   *leadership
	rights    *broadcast // fired when the rights of a principal may have changed

	holder    *trust.Holder // nil: the cluster runs without certificates
	registrar *registrar.Registrar
}

// renew gives this master a new certificate, which it signs itself.
func (p *proof) renew() error {
	if p.holder == nil {
		return nil
	}
	bound, _, err := net.SplitHostPort(p.listeners.grpc.Addr().String())
	if err != nil {
		bound = ""
	}
	pass, err := p.registrar.Issue(p.config.ID, time.Now(),
		p.config.Advertise, bound, hostOf(p.config.HTTP), "localhost", "127.0.0.1", "::1")
	if err != nil {
		return err
	}
	p.holder.Replace(pass)
	return nil
}

// keep renews this master's certificate in time, and also when the registry names a new certificate authority.
// Then the new key is in the folder before others see the new certificate.
func (p *proof) keep(ctx context.Context) error {
	if p.holder == nil {
		return nil
	}
	for ctx.Err() == nil {
		news := p.rights.wait()
		if err := p.followAuthority(); err != nil {
			return err
		}
		due := time.NewTimer(max(time.Until(p.holder.Pass().RenewAt()), pause.Soonest))
		select {
		case <-news:
		case <-due.C:
			if err := p.renew(); err != nil {
				return err
			}
		case <-ctx.Done():
		}
		due.Stop()
	}
	return nil
}

// followAuthority switches to the certificate authority that the registry names, if that is a new one.
func (p *proof) followAuthority() error {
	if _, err := p.registrar.Follow(); err != nil {
		return err
	}
	key, err := p.registrar.Key()
	if err != nil {
		return err
	}
	authority, err := key.Authority()
	if err != nil || authority.Digest() == p.holder.Pass().Authority() {
		return err
	}
	if p.config.DataDir != "" {
		if err := trust.RewriteKey(p.config.DataDir, key); err != nil {
			return err
		}
	}
	p.log.Info().Stringer("authority", authority.Digest()).Time("former_ends", authority.Anchors().FormerEnds()).
		Msg("another authority signs the certificates of the cluster")
	return p.renew()
}

// credentials admit callers that have a certificate, or a token to get one.
func (p *proof) credentials() credentials.TransportCredentials {
	if p.holder == nil {
		return insecure.NewCredentials()
	}
	door := trust.Door{Joiners: true, Tickets: p.config.Trust.Key, Seen: p.registrar.Met, Ended: p.sayEnded(), Leads: p.leading.awaitLeader}
	return transport.ServerCredentials(p.holder, door)
}

// taps returns the options by which gRPC serves such callers.
func (p *proof) taps() []grpc.ServerOption {
	if p.holder == nil {
		return []grpc.ServerOption{grpc.ReadBufferSize(readBufferBytes)}
	}
	return []grpc.ServerOption{grpc.InTapHandle(onlyMembers), grpc.ReadBufferSize(0)}
}

// sayEnded returns a function that logs who came with a certificate that is no longer valid, and what remedies that.
func (p *proof) sayEnded() func(*trust.EndedError) {
	var mu sync.Mutex
	said := map[trust.Identity]time.Time{} // guarded by mu
	isNews := func(identity trust.Identity, now time.Time) bool {
		mu.Lock()
		defer mu.Unlock()
		if now.Sub(said[identity]) < endedSaidEvery {
			return false
		}
		if len(said) >= endedSaidMax {
			clear(said)
		}
		said[identity] = now
		return true
	}
	return func(ended *trust.EndedError) {
		if !isNews(ended.Identity, time.Now()) {
			return
		}
		p.log.Warn().Stringer("identity", ended.Identity).AnErr("why", ended).Str("remedy", ended.Remedy()).Msg("refused a connection: its certificate is no longer valid")
	}
}

// known serves HTTP requests that name this master as their host, and tells the handlers who the caller is.
func (p *proof) known(handler http.Handler) http.Handler {
	told := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(p.whoAsks(r.Context())))
	})
	return trust.KnownHosts(told, p.config.Advertise, hostOf(p.config.GRPC), hostOf(p.config.HTTP))
}

// whoAsks returns the context of an HTTP request with the identity of its caller. Where HTTP is open, whoever shows no
// certificate is the first principal.
func (p *proof) whoAsks(ctx context.Context) context.Context {
	known := trust.FromConn(ctx)
	if p.config.Trust.OpenHTTP && p.holder != nil && trust.Of(known) == (trust.Identity{}) {
		return trust.With(ctx, trust.Identity{Cluster: p.config.Trust.Key.Cluster(), Kind: trust.Person, Name: registrar.FirstPrincipal})
	}
	return known
}

// httpListener returns the HTTP listener. It asks for certificates; where HTTP is open, plain text is understood too.
func (p *proof) httpListener() net.Listener {
	return p.holder.Listener(p.listeners.http, trust.Door{Strangers: true, Plain: p.config.Trust.OpenHTTP})
}

// access returns how the guard learns who calls: by certificates, unless the config says otherwise.
func (p *proof) access() Access {
	access := p.config.Access
	if p.holder != nil && access.Identify == nil {
		access.Identify, access.Domain = transport.CallerOf, p.config.Trust.Key.Cluster()
	}
	return access
}

// isTooEarly reports whether a principal was denied something only because the cluster is still being founded.
func (p *proof) isTooEarly(ctx context.Context, err error) bool {
	return api.Is(err, api.Denied) && isPrincipal(ctx) && p.registrar.Founding()
}

// tooEarly is the error for a call for which it is too early.
func (p *proof) tooEarly(call string) error {
	return api.E(call, api.Unavailable, p.config.ID, errFounding).RetryIn(foundingRetry)
}

// dialMaster prepares a connection to another master.
func (p *proof) dialMaster(address string) (*grpc.ClientConn, error) {
	return transport.Connect(address, p.holder.Dialer(p.config.Dial, trust.Master), wire.WithCodec())
}

func (p *proof) dialRaft(address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return p.holder.Dialer(p.config.Dial, trust.Master)(ctx, address)
}

// dialAgent connects to an agent as this master.
func (p *proof) dialAgent(ctx context.Context, address string) (net.Conn, error) {
	return p.holder.Dialer(p.config.Dial, trust.Agent)(ctx, address)
}

// callMaster makes a call to another master, on a connection of its own, within the given time.
func (p *proof) callMaster(ctx context.Context, address string, most time.Duration, call func(context.Context, *grpc.ClientConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	conn, err := p.dialMaster(address)
	if err != nil {
		return err
	}
	defer conn.Close()
	return call(ctx, conn)
}

// denied returns the error for a principal that may not make a call, as far as this master knows. A follower may not
// know the latest grants, so it sends the principal to the leader. A leader that has not finished founding the cluster
// knows of no grants; its refusal is not final. (R66)
func (p *proof) denied(ctx context.Context, call string, err error) error {
	switch {
	case !api.Is(err, api.Denied) || !isPrincipal(ctx):
		return err
	case p.leading.now.Load() == nil:
		return p.leading.notLeader(call)
	case p.isTooEarly(ctx, err):
		return p.tooEarly(call)
	}
	return err
}

// prepare makes the registrar, and the holder if there are certificates.
func (p *proof) prepare() (err error) {
	key := p.config.Trust.Key
	p.registrar, err = registrar.New(registrar.Config{
		Key:    key,
		Lives:  p.config.Trust.Lives,
		Read:   func(look func(*registry.State)) { p.raft.Read(look) },
		Commit: p.leading.commit,
		Peers: func() map[api.MasterID]string {
			peers := map[api.MasterID]string{}
			for _, member := range p.raft.Members.Status().Members {
				peers[member.ID] = member.Addr
			}
			return peers
		},
		Signed: func(identity trust.Identity, token string, ends time.Time) {
			p.log.Info().Stringer("identity", identity).Str("token", token).Time("ends", ends).Msg("certificate signed")
		},
	})
	if err == nil && !key.IsZero() && !p.config.Trust.Plain {
		p.holder = trust.NewHolder(nil)
	}
	return err
}

const (
	// endedSaidEvery is how often the log names the same caller whose certificate is no longer valid, because such a
	// caller tries again and again.
	endedSaidEvery = time.Hour
	// endedSaidMax bounds the callers that are remembered for that. When there are more, all are forgotten and logged
	// anew.
	endedSaidMax = 10_000
)

// onlyMembers lets a caller without a certificate ask for one and nothing else. It decides before anything of the call
// is read.
func onlyMembers(ctx context.Context, call *tap.Info) (context.Context, error) {
	if _, known := peer.FromContext(ctx); !known || call.FullMethodName == apiv1.TrustService_Sign_FullMethodName ||
		transport.CallerOf(ctx).Kind != trust.Nobody {
		return ctx, nil
	}
	return nil, status.Error(codes.Unauthenticated, "who has only a token may ask for a certificate and nothing else")
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return host
}

// errFounding is told to a principal for whom it is too early.
var errFounding = errors.New("the cluster is being founded, and nobody has been granted anything yet; try again")

// foundingRetry is when a principal is to come again while the cluster is being founded.
const foundingRetry = 100 * time.Millisecond

// isPrincipal reports whether the caller is one to whom something can be granted.
func isPrincipal(ctx context.Context) bool {
	kind := transport.CallerOf(ctx).Kind
	return kind == trust.Framework || kind == trust.Person
}
