package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/contexts"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// tokenKinds are the kinds of identities for which tokens are made, with the defaults of the tokens.
var tokenKinds = map[string]struct {
	ttl       time.Duration // 0: valid for ever
	uses      int           // 0: any number of uses
	principal string        // the default principal; "" for none
}{
	"agent":     {time.Hour, 1, ""},
	"master":    {time.Hour, 1, ""},
	"framework": {0, 0, "NAME"},
	"operator":  {0, 0, "NAME"},
}

func tokenCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{Use: "token", Short: "Let agents, masters, frameworks and people join the cluster"}
	add(command, "", createTokenCommand(who), listCommand(who, nouns.Tokens, &nouns.Query{}, "List the tokens, without their secrets"), revokeTokenCommand(who))
	return command
}

func createTokenCommand(who *caller.Caller) *cobra.Command {
	var w tokenWish
	command := &cobra.Command{
		Use:   "create KIND",
		Short: "Make a token with which somebody joins",
		Long: "Make a token with which an agent, a master, a framework or an operator (a person) joins the cluster.\n\n" +
			"A token is one word, and it is a secret. --output writes it into a new file that only you can read; --join takes such a\n" +
			"file. Without --output it is printed. It is shown only once, because masters keep nothing but its hash. Agents and\n" +
			"masters need it once, at their first start. Frameworks and people keep it; with it they get a new certificate whenever\n" +
			"the last one has expired.\n\n" +
			"A framework may run in its roles. An operator may do everything, unless its principal has grants already. With --may the\n" +
			"principal gets exactly that; it must have no other grant. See 'tender grant --help' for what can be granted.",
		Example: "  tender token create agent --uses 20 -o agents.token\n" +
			"  tender token create framework --principal etl --role eng/etl -o etl.token\n" +
			"  tender token create operator --principal ann --may operate --role eng -o ann.token",
		Args: caller.Exactly("KIND"), ValidArgs: []string{"agent", "master", "framework", "operator"},
	}
	flags := command.Flags()
	flags.StringVarP(&w.file, "output", "o", "", "new `file` for the token, instead of printing it")
	flags.StringVar(&w.principal, "principal", "", "principal of the framework or operator: the name to which rights are granted")
	flags.StringSliceVar(&w.roles, "role", []string{string(api.DefaultRole)}, "roles in which the framework may run, or in which --may holds; repeatable")
	flags.StringSliceVar(&w.may, "may", nil, "`verb` that the principal may do, in each --role if any is named, and nothing else; repeatable")
	flags.DurationVar(&w.ttl, "ttl", 0, "how long the token is valid; 0 = for ever (default 1h for agents and masters)")
	flags.IntVar(&w.uses, "uses", 0, "how many may join with the token; 0 = any number (default 1 for agents and masters)")
	command.RunE = func(command *cobra.Command, args []string) error {
		request, err := w.request(args[0], command.Flags().Changed)
		if err != nil {
			return err
		}
		return who.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return makeToken(ctx, who, c, request, w.file)
		})(command, args)
	}
	return command
}

// tokenWish is what the flags of `tender token create` say.
type tokenWish struct {
	file, principal string
	roles, may      []string
	ttl             time.Duration
	uses            int
}

// request returns what to ask of the leader for a token of the kind. The function said reports which flags were given.
func (w tokenWish) request(name string, said func(flag string) bool) (*apiv1.CreateTokenRequest, error) {
	kind, known := tokenKinds[name]
	switch {
	case !known:
		return nil, caller.Usagef("%q is no kind of token; there are agent, master, framework and operator", name)
	case kind.principal != "" && w.principal == "":
		return nil, caller.Usagef("--principal NAME is missing: the principal of the %s", name)
	case w.ttl < 0 || w.uses < 0:
		return nil, caller.Usagef("--ttl and --uses must not be negative")
	case name != "framework" && said("role") && len(w.may) == 0:
		return nil, caller.Usagef("--role without --may restricts nothing: say what the %s may do in it, such as --may operate", name)
	}
	request := &apiv1.CreateTokenRequest{Kind: name, Principal: w.principal, Uses: uint64(w.uses), Ttl: wire.DurationToProto(w.ttl)}
	if !said("ttl") {
		request.Ttl = wire.DurationToProto(kind.ttl)
	}
	if !said("uses") {
		request.Uses = uint64(kind.uses)
	}
	if name == "framework" && len(w.may) == 0 {
		request.Roles = w.roles
	}
	if !said("role") {
		w.roles = []string{""} // --may holds everywhere
	}
	for _, verb := range w.may {
		for _, role := range w.roles {
			grant := &apiv1.PrincipalGrant{Verb: verb, Role: role}
			if err := checkGrant(grant); err != nil {
				return nil, err
			}
			request.May = append(request.May, grant)
		}
	}
	return request, nil
}

// makeToken makes a token, and prints it or writes it into a new file. The file is made first, so that no token is made
// that could not be kept.
func makeToken(ctx context.Context, who *caller.Caller, c *client.Client, request *apiv1.CreateTokenRequest, name string) (err error) {
	if name == "" {
		answer, err := c.Operator().CreateToken(ctx, request)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(who.Stdout, answer.GetToken())
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if os.IsExist(err) {
		return caller.Usagef("--output: %s is there already, and is not overwritten; name a new file", name)
	}
	if err != nil {
		return caller.Usagef("--output: %w", err)
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, os.Remove(name))
		}
	}()
	answer, err := c.Operator().CreateToken(ctx, request)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(file, answer.GetToken()); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(who.Stdout, "token %s is in %s, which only you can read\n", answer.GetId(), name)
	return err
}

func revokeTokenCommand(who *caller.Caller) *cobra.Command {
	return &cobra.Command{
		Use: "revoke TOKEN", Short: "Make a token invalid", Args: caller.Exactly("TOKEN"),
		Long: "Make a token invalid, so that nobody can join with it any more. TOKEN is its ID. Whoever has joined with it stays until\n" +
			"the certificate expires.",
		RunE: who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			id := args[0]
			if token, err := trust.ParseToken(id); err == nil {
				id = token.ID
			}
			return who.TellAnswer(c.Operator().RevokeToken(ctx, &apiv1.RevokeTokenRequest{Id: id}))
		}),
	}
}

func initCommand(who *caller.Caller) *cobra.Command {
	var dir, certificate, key string
	command := &cobra.Command{
		Use:   "init",
		Short: "Make the key of a new cluster",
		Long: "Make the key of a new cluster in the data folder of its first master, and the token of its first operator. This is\n" +
			"rarely needed: a first master that finds an empty folder does it by itself. But a key that exists before the first start\n" +
			"can be copied to the other masters that found the cluster (--peers).\n\n" +
			"Masters derive from the key the certificates by which all parts of the cluster know each other. Whoever has the key can\n" +
			"pretend to be anybody. Further masters get it when they join (tender token create master), or as a copy of the file.",
		Example: "  tender init --data-dir /var/lib/tender/master\n" +
			"  tender init --data-dir /var/lib/tender/master --ca-cert ca.pem --ca-key ca.key",
		Args: caller.Exactly(),
	}
	command.Flags().StringVar(&dir, "data-dir", "/var/lib/tender/master", "folder of the first master")
	ownAuthorityFlags(command, &certificate, &key)
	command.RunE = func(*cobra.Command, []string) error {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == trust.KeyFile }) {
			return api.E("trust.init", api.Exists, dir, errors.New("the folder has a cluster's key already"))
		}
		if !isFresh(dir) {
			return api.E("trust.init", api.Exists, dir, errors.New("the folder is not empty; the key of a new cluster goes into a folder in which no master has run"))
		}
		clusterKey, err := newKey(certificate, key)
		if err != nil {
			return err
		}
		return makeKey(dir, "HOST:5060", clusterKey, who.Stderr)
	}
	return command
}

// newKey makes a cluster's key, with an organisation's own authority if files of one are named.
func newKey(certificate, key string) (trust.Key, error) {
	clusterKey := trust.NewKey()
	certificatePEM, keyPEM, err := readOwnAuthority(certificate, key)
	if err != nil || certificatePEM == nil {
		return clusterKey, err
	}
	own, err := trust.OwnAuthority(clusterKey.Cluster(), certificatePEM, keyPEM, time.Now())
	if err != nil {
		return clusterKey, err
	}
	return clusterKey.WithAuthority(own)
}

// makeKey writes a cluster's key and the first operator's token. It prints where they are, and how to log in at the
// cluster's first master.
func makeKey(dir, master string, key trust.Key, out io.Writer) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := trust.RemoveUnfinished(dir, trust.KeyFile, trust.FirstTokenFile); err != nil {
		return err
	}
	token, err := key.FirstToken()
	if err != nil {
		return err
	}
	name := filepath.Join(dir, trust.FirstTokenFile)
	if err := trust.WriteSecret(name, []byte(token.String()+"\n")); err != nil {
		return err
	}
	if err := trust.WriteKey(dir, key); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "The cluster's key is %s: keep it as safe as the root password.\n"+
		"The first operator's token is in %s; when the master runs:\n\n  %s login --master %s --join %s\n\n",
		filepath.Join(dir, trust.KeyFile), name, programName(), master, name)
	return err
}

// tokenOf reads a token that is given as text, or as the name of a file.
func tokenOf(text string) (trust.Token, error) {
	if !strings.HasPrefix(text, trust.TokenPrefix) {
		file, err := trust.ReadSecret(text)
		if err != nil {
			return trust.Token{}, fmt.Errorf("--join names the file of a token: %w", err)
		}
		text = string(file)
	}
	token, err := trust.ParseToken(text)
	if err != nil {
		return token, caller.Usage(err)
	}
	return token, nil
}

// awaitFile waits a moment for a token file, because the first master, which writes it, may just have been started.
func awaitFile(ctx context.Context, text string) {
	const (
		tries = 20
		after = 100 * time.Millisecond
	)
	if strings.HasPrefix(text, trust.TokenPrefix) {
		return
	}
	for range tries {
		if _, err := os.Stat(text); !os.IsNotExist(err) || !pause.For(ctx, after) {
			return
		}
	}
}

func loginCommand(who *caller.Caller) *cobra.Command {
	var text, name string
	command := &cobra.Command{
		Use:   "login",
		Short: "Join a cluster as a person",
		Long: "Join a cluster as a person, with an operator's token (tender token create operator --principal NAME -o FILE).\n\n" +
			"The certificate and the token are kept in your configuration folder under the name of a context. Commands use the\n" +
			"context that was chosen last; see 'tender context'.",
		Example: "  tender login --master 10.0.0.1:5060 --join ann.token",
		Args:    caller.Exactly(),
	}
	command.Flags().StringVar(&text, "join", "", "`file` that contains the token")
	command.Flags().StringVar(&name, "name", "default", "name of the context to make")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if text == "" {
			return caller.Usagef("--join FILE is missing; an operator makes the file: tender token create operator --principal NAME -o FILE")
		}
		awaitFile(command.Context(), text)
		token, err := tokenOf(text)
		if err != nil {
			return err
		}
		masters, err := who.MastersOr([]string{client.DefaultMaster})
		if err != nil {
			return err
		}
		folder := contexts.Of(who.Lookup)
		if folder == "" {
			return errors.New("neither XDG_CONFIG_HOME nor HOME says where to keep the certificate")
		}
		dial := who.Dial
		if dial == nil {
			dial = transport.DialTCP
		}
		pass, err := contexts.Join(command.Context(), masters, dial, token, func(_ string, err error) {
			who.SayUnless(false)("waiting for a master: %s", caller.Sentence(err))
		})
		if err != nil {
			return err
		}
		if err := folder.Write(contexts.Context{Name: name, Masters: masters, Token: token.String()}, pass); err != nil {
			return err
		}
		if err := folder.Use(name); err != nil {
			return err
		}
		askForMasters(command.Context(), contexts.Wish{Context: name, Masters: masters, Lookup: who.Lookup, Dial: who.Dial})
		_, err = fmt.Fprintf(who.Stdout, "You are %s, in context %s.\n", pass.Identity(), name)
		return err
	}
	return command
}

// askForMasters makes the context know all masters. If they can't be asked now, the next command asks.
func askForMasters(ctx context.Context, wish contexts.Wish) {
	where, err := contexts.Find(ctx, wish)
	if err != nil {
		return
	}
	c, err := caller.ClientOf(where, nil)
	if err != nil {
		return
	}
	_, _ = c.Operator().GetCluster(ctx, &apiv1.GetClusterRequest{})
	_ = c.Close()
}

func contextCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{
		Use: "context", Short: "List and choose the clusters that you have joined", Args: caller.Exactly(),
		Long: "List the clusters that you have joined. A command uses the one that --context or TENDER_CONTEXT names, else the one\n" +
			"that one of the --master addresses belongs to, else the one that was chosen with 'tender context use'.",
	}
	use := &cobra.Command{Use: "use NAME", Short: "Choose the cluster that the next commands use", Args: caller.Exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error { return contexts.Of(who.Lookup).Use(args[0]) }}
	remove := &cobra.Command{Use: "remove NAME", Short: "Forget a cluster, with its certificate and token", Args: caller.Exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error { return contexts.Of(who.Lookup).Remove(args[0]) }}
	add(command, "", use, remove)
	command.RunE = func(*cobra.Command, []string) error {
		folder := contexts.Of(who.Lookup)
		names, err := folder.List()
		if err != nil {
			return err
		}
		current, err := folder.Current()
		if err != nil {
			return err
		}
		var rows [][]string
		for _, name := range names {
			c, err := folder.Read(name)
			if err != nil {
				return err
			}
			chosen := "-"
			if name == current {
				chosen = "yes"
			}
			rows = append(rows, []string{name, chosen, strings.Join(c.Masters, ",")})
		}
		return show.Table(who.Stdout, []string{"CONTEXT", "CHOSEN", "MASTERS"}, rows)
	}
	return command
}

func caCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{Use: "ca", Short: "Show or replace the certificate authority of the cluster"}
	add(command, "", caStatusCommand(who), caShowCommand(who), caRotateCommand(who))
	return command
}

func caStatusCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{
		Use: "status", Short: "Show who signs certificates, and when those of the cluster expire", Args: caller.Exactly(),
		Long: "Show which authority signs certificates, and when the certificates of the cluster expire. The leader knows those that it\n" +
			"has seen since it leads. Certificates are renewed automatically at half of their life.",
	}
	format := show.FormatFlag(command.Flags(), show.AsText, show.AsJSON)
	command.RunE = func(command *cobra.Command, _ []string) error {
		ctx := command.Context()
		where, err := who.Cluster(ctx)
		if err != nil {
			return err
		}
		if where.Holder == nil {
			return errNoCertificate
		}
		c, err := client.New(client.Config{Masters: where.Masters, Dial: where.ToMasters()})
		if err != nil {
			return caller.Usage(err)
		}
		defer c.Close()
		view, err := c.Operator().GetAuthority(ctx, &apiv1.GetAuthorityRequest{})
		switch {
		case err != nil:
			return err
		case format.Is(show.AsJSON):
			return show.JSON(who.Stdout, view)
		}
		return tellAuthority(who, view, where.Holder.Pass())
	}
	return command
}

func caShowCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{
		Use: "show", Short: "Print the certificate of the authority, for browsers and other programs", Args: caller.Exactly(),
		Long: "Print the certificate of the authority as PEM, for programs that are not part of Tender. A browser that trusts it for\n" +
			"websites accepts the masters' pages. The certificate is no secret. But whoever has the\n" +
			"cluster's key can pretend to be any website to a browser that trusts it, so use a browser profile only for this.",
		Example: "  tender ca show > cluster.pem\n" +
			"  curl --cacert cluster.pem https://10.0.0.1:8443/login",
	}
	command.RunE = func(command *cobra.Command, _ []string) error {
		where, err := who.Cluster(command.Context())
		if err != nil {
			return err
		}
		if where.Holder == nil {
			return errNoCertificate
		}
		_, err = who.Stdout.Write(trust.MarshalCertificate(where.Holder.Pass().Anchors().Root))
		return err
	}
	return command
}

// errNoCertificate is the error of commands about the authority if the caller shows no certificate.
var errNoCertificate = errors.New("this command shows no certificate: it has no context, and TENDER_TOKEN is not set; see 'tender login'")

// tellAuthority prints which authority signs, who the caller is, and what the other members have.
func tellAuthority(who *caller.Caller, view *apiv1.AuthorityView, own *trust.Pass) error {
	fields := [][2]string{
		{"Cluster", view.GetCluster()},
		{"Authority", "sha256 " + view.GetDigest()},
	}
	if began := view.GetBegan(); began != nil {
		fields = append(fields, [2]string{"Since", began.AsTime().Format(time.RFC3339)})
	}
	if ends := view.GetEnds(); ends != nil {
		fields = append(fields, [2]string{"Ends", ends.AsTime().Format(time.RFC3339)})
	}
	if former := view.GetFormerDigest(); former != "" {
		old := 0
		for _, item := range view.GetItems() {
			if item.GetAuthority() == former {
				old++
			}
		}
		fields = append(fields, [2]string{"Former", fmt.Sprintf("sha256 %s, until %s; shown by %s below", former,
			view.GetFormerEnds().AsTime().Format(time.RFC3339), words.Count(old, "member"))})
	}
	fields = append(fields,
		[2]string{"You", own.Identity().String()},
		[2]string{"Your end", fmt.Sprintf("%s (renewed by itself from %s on)", own.Ends().Format(time.RFC3339), own.RenewAt().Format(time.RFC3339))})
	if err := show.Fields(who.Stdout, fields); err != nil {
		return err
	}
	var rows [][]string
	for _, item := range view.GetItems() {
		authority, ends := "present", item.GetEnds().AsTime().Format(time.RFC3339)
		switch item.GetAuthority() {
		case view.GetDigest():
		case "":
			authority, ends = "not seen", ""
		default:
			authority = "former"
		}
		rows = append(rows, []string{item.GetIdentity(), authority, ends, show.Age(who.Now(), item.GetShown())})
	}
	if len(rows) == 0 {
		return nil
	}
	if _, err := io.WriteString(who.Stdout, "\n"); err != nil {
		return err
	}
	return show.Table(who.Stdout, []string{"IDENTITY", "AUTHORITY", "ENDS", "SHOWN"}, rows)
}

func caRotateCommand(who *caller.Caller) *cobra.Command {
	var overlap time.Duration
	var certificate, key string
	command := &cobra.Command{
		Use: "rotate", Short: "Replace the authority that signs the cluster's certificates", Args: caller.Exactly(),
		Long: "Replace the authority that signs the cluster's certificates. Both authorities are valid until the overlap is over. All\n" +
			"that are connected get a certificate of the new one within two hours, automatically and without a broken connection.\n" +
			"Whoever is away for the whole overlap must join again. Older tokens are valid as long as the overlap; then new ones are\n" +
			"needed.\n\n" +
			"The new authority is made by the cluster, or is that of your own organisation: --ca-cert and --ca-key.",
		Example: "  tender ca rotate\n" +
			"  tender ca rotate --overlap 48h",
	}
	command.Flags().DurationVar(&overlap, "overlap", 0, "how long the former authority stays valid, at least 2h, or less if certificates live shorter (default: the life of an agent's certificate)")
	ownAuthorityFlags(command, &certificate, &key)
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
		request := &apiv1.RotateAuthorityRequest{Overlap: wire.DurationToProto(overlap)}
		var err error
		if request.Certificate, request.PrivateKey, err = readOwnAuthority(certificate, key); err != nil {
			return err
		}
		view, err := c.Operator().RotateAuthority(ctx, request)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(who.Stdout, "Certificates are signed by authority sha256 %s from now on.\n"+
			"The former one counts until %s: have new tokens made and handed out until then; see 'tender ca status'.\n",
			view.GetDigest(), view.GetFormerEnds().AsTime().Format(time.RFC3339))
		return err
	})
	return command
}

func ownAuthorityFlags(command *cobra.Command, certificate, key *string) {
	command.Flags().StringVar(certificate, "ca-cert", "", "PEM file with the certificate of your own authority, which must sign for this cluster only")
	command.Flags().StringVar(key, "ca-key", "", "PEM file with its private key, mode 0600")
}

// readOwnAuthority reads the files that the flags name; nothing if they name none.
func readOwnAuthority(certificate, key string) (certificatePEM, keyPEM []byte, err error) {
	switch {
	case certificate == "" && key == "":
		return nil, nil, nil
	case certificate == "" || key == "":
		return nil, nil, caller.Usagef("--ca-cert and --ca-key belong together: an authority is a certificate and its private key")
	}
	if certificatePEM, err = os.ReadFile(certificate); err != nil {
		return nil, nil, caller.Usagef("--ca-cert: %w", err)
	}
	if keyPEM, err = trust.ReadSecret(key); err != nil {
		return nil, nil, caller.Usagef("--ca-key: %w", err)
	}
	return certificatePEM, keyPEM, nil
}
