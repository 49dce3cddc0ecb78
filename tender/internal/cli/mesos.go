package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/mesos/gateway"
	"github.com/tenderhq/tender/internal/mesos/operator"
	"github.com/tenderhq/tender/internal/mesos/translate"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

// mesosPort is where clients look for a master of Mesos.
const mesosPort = 5050

// mesosFlags are the flags of 'tender mesos'.
type mesosFlags struct {
	bind, advertise string
	port, agentPort int
	cert, key       string
	tls             bool
	peers           []string
	open, insecure  bool
}

func mesosCommand(who *caller.Caller) *cobra.Command {
	var f mesosFlags
	command := &cobra.Command{
		Use:   "mesos",
		Short: "Run a gateway for frameworks that were written for Apache Mesos",
		Long: "Run a gateway that speaks the HTTP API (v1) of Apache Mesos to frameworks that were written for it, and is a framework\n" +
			"of Tender for each of them. Such a framework changes the address of its master, and nothing else;\n" +
			"docs/from-mesos.md says what works.\n\n" +
			"Run as many gateways as you like, on different machines: none keeps anything for itself, and a framework that\n" +
			"subscribes at another one goes on there. Name the others by --peers if a framework's calls may reach another gateway\n" +
			"than its subscription, as behind a load balancer.\n\n" +
			"A framework authenticates as a principal of the cluster, by basic authentication with a token as the password (an\n" +
			"operator makes one: tender token create framework --principal NAME). With --open those that come without credentials\n" +
			"are let in too, as the gateway's own principal, whose token is TENDER_TOKEN; only on loopback.\n\n" +
			"With --tls the gateway proves itself by a certificate of the cluster's authority, which names the hosts of --bind and\n" +
			"--advertise and is renewed by itself. Frameworks trust that authority: tender ca show > cluster.pem. The principal of\n" +
			"TENDER_TOKEN needs the grant sign-hosts, because whoever has such a certificate is taken for those hosts.\n\n" +
			"Every flag can also be given as an environment variable (TENDER_PORT for --port).",
		Example: "  tender dev --mesos\n" +
			"  tender mesos --bind 10.0.0.7 --advertise gateway.example --tls\n" +
			"  tender mesos --bind 10.0.0.7 --cert gateway.crt --key gateway.key",
		Args: caller.Exactly(),
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.bind, "bind", "127.0.0.1", "address to listen on")
	flags.IntVar(&f.port, "port", mesosPort, "port to listen on; 0 = any")
	flags.IntVar(&f.agentPort, "agent-port", translate.AgentPort, "port to listen on for what tools ask the agents of this machine; 0 = none")
	flags.StringVar(&f.advertise, "advertise", "", "host at which frameworks reach it (default: the one of --bind; required when that is 0.0.0.0)")
	flags.BoolVar(&f.tls, "tls", false, "prove the gateway to frameworks by a certificate of the cluster's authority")
	flags.StringVar(&f.cert, "cert", "", "`file` with a certificate of one's own that does, with its chain")
	flags.StringVar(&f.key, "key", "", "`file` with the key of --cert")
	flags.StringSliceVar(&f.peers, "peers", nil, "other gateways, HOST:PORT,...: calls of frameworks that have subscribed there are passed on to them")
	flags.BoolVar(&f.open, "open", false, "let frameworks in that have no credentials, as the gateway's own principal; only on loopback addresses")
	flags.BoolVar(&f.insecure, "insecure", false, "do without credentials and TLS on any address, for trusted networks and clusters without certificates")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := settings.Merge(flags, []string{"bind", "port", "agent-port", "advertise", "tls", "cert", "key", "peers", "open", "insecure"}, who.Lookup, nil); err != nil {
			return caller.Usage(err)
		}
		if err := f.check(); err != nil {
			return caller.Usage(err)
		}
		masters, err := who.MastersOr(nil)
		if err != nil {
			return err
		}
		token, _ := who.Lookup("TENDER_TOKEN")
		return runMesos(command.Context(), who, f, masters, token)
	}
	command.AddCommand(mesosCheckCommand(who))
	return command
}

func (f *mesosFlags) check() error {
	ip, err := settings.Listen{Bind: f.bind, Port: f.port, Advertise: f.advertise}.Check("frameworks")
	switch {
	case err != nil:
		return err
	case f.agentPort < 0 || f.agentPort > 65535:
		return fmt.Errorf("--agent-port is %d; write 1 to 65535, or 0 for none", f.agentPort)
	case (f.cert == "") != (f.key == ""):
		return errors.New("--cert and --key belong together; write both, or none")
	case f.tls && f.cert != "":
		return errors.New("--tls and --cert each name a certificate; write one of them")
	case f.open && !ip.IsLoopback():
		return fmt.Errorf("--open lets everybody in, and --bind %s can be reached by others; have frameworks authenticate, or say --insecure if the network is trusted", f.bind)
	case !ip.IsLoopback() && f.cert == "" && !f.tls && !f.insecure:
		return fmt.Errorf("--bind %s can be reached by others and there is no TLS: write --tls, or --cert and --key, or --insecure if their network is trusted", f.bind)
	}
	for _, peer := range f.peers {
		if host, _, err := net.SplitHostPort(peer); err != nil || host == "" {
			return fmt.Errorf("--peers %q is no HOST:PORT", peer)
		}
	}
	return nil
}

// runMesos runs a gateway until ctx ends.
func runMesos(ctx context.Context, who *caller.Caller, f mesosFlags, masters []string, token string) error {
	adapter, err := mesosAdapter()
	if err != nil {
		return err
	}
	proof, err := f.prove(ctx, who, masters, token)
	if err != nil {
		return err
	}
	defer proof.end()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(f.bind, strconv.Itoa(f.port)))
	if err != nil {
		return api.E("mesos.listen", api.Unavailable, f.bind, err)
	}
	address := listener.Addr().String()
	if f.advertise != "" {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		address = net.JoinHostPort(f.advertise, port)
	}
	tools := operator.New(operator.Config{
		Cluster: func(ctx context.Context, token string) (operator.Cluster, error) {
			return client.Dial(ctx, client.Config{Masters: masters, Token: token})
		},
		Adapter: adapter.Argv, Token: token, Open: f.open || f.insecure, Address: address, Log: zerolog.New(who.Stderr).With().Timestamp().Logger().Level(zerolog.InfoLevel),
	})
	defer serveAgents(ctx, who, f, proof.serve, tools.Agent())()
	who.SayUnless(false)("Frameworks of Mesos find their master at %s.", address)
	err = gateway.Serve(ctx, listener, gateway.Config{
		Masters: masters, Token: token, Open: f.open || f.insecure, Address: address, Peers: f.peers, DialTLS: proof.dial, Adapter: adapter,
		Log: who.Stderr, Know: tools.Know,
	}, proof.serve, tools)
	return errors.Join(err, tools.Close())
}

// serveAgents answers for the agents of this machine until the returned function is called. If the port is taken, by
// another gateway for example, that is said, and it does without.
func serveAgents(ctx context.Context, who *caller.Caller, f mesosFlags, secure *tls.Config, agents http.Handler) (stop func()) {
	if f.agentPort == 0 {
		return func() {}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(f.bind, strconv.Itoa(f.agentPort)))
	if err != nil {
		fmt.Fprintf(who.Stderr, "tools of Mesos do not reach the agents of this machine here: %v\n", err)
		return func() {}
	}
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	server := &http.Server{Handler: agents, ReadHeaderTimeout: 10 * time.Second}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) }) // until stop
	return func() {
		_ = server.Close()
		served.Wait()
	}
}

// mesosAdapter is the command that runs executors of old frameworks. Agents find it where this program is on the
// gateway's machine: they are the same program, so that an executor that runs on is described alike by every gateway.
func mesosAdapter() (api.Command, error) {
	executor, err := commandExecutor()
	if err != nil {
		return api.Command{}, err
	}
	return api.Command{Argv: []string{executor[0], "adapter"}}, nil
}
