package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenderhq/tender/allocator"
	_ "github.com/tenderhq/tender/allocator/fairshare" // registers itself
	_ "github.com/tenderhq/tender/allocator/priority"  // registers itself
	_ "github.com/tenderhq/tender/allocator/remote"    // registers itself
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/heap"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/master"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/history"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/dev"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

// masterFlags are the flags of `tender master` besides the shared ones.
type masterFlags struct {
	id                           string
	peers                        []string
	grpcPort, httpPort, raftPort int
	profile, allocator, journal  string
	dns                          string
	ui                           bool
	minOffer, audit              string
	storeBytes                   int64
	lives                        trust.Lives
	history                      master.History
	snapshots                    master.Snapshots
	times                        core.Config
	goneAfterOf                  []string
	addressed                    bool // an address was given; otherwise the folder may know a better one
}

func (a *App) masterCommand() *cobra.Command {
	d := &daemon{app: a, proof: trust.KeyFile}
	var f masterFlags
	command := &cobra.Command{
		Use:   "master",
		Short: "Run a master of a cluster",
		Long: "Run a master of a cluster. The first master of a new cluster makes the cluster's key in its data folder and prints where\n" +
			"the token of the first operator is. It is a quorum of one until others join; 'tender token create master' makes the\n" +
			"token for that. With --insecure there is no key; to found a cluster of three or five, start each with the same --peers.\n\n" +
			"The data folder remembers the ID, the addresses and the peers, so that later starts need only --data-dir.\n\n" + envHelp,
		Example: "  tender master --data-dir /var/lib/tender/m1 --id m1 --bind 10.0.0.1\n" +
			"  tender master --data-dir /var/lib/tender/m2 --id m2 --bind 10.0.0.2 --master 10.0.0.1:5060 --join masters.token",
		Args: caller.Exactly(),
	}
	flags := command.Flags()
	d.flags(flags, "/var/lib/tender/master")
	flags.StringVar(&f.id, "id", "", "name of this master in its quorum; its folder remembers it after the first start (default for a single master: m1)")
	flags.StringSliceVar(&f.peers, "peers", nil, "all founding members of the quorum, this one included, each as ID=HOST:PORT with its Raft port")
	flags.IntVar(&f.grpcPort, "grpc-port", 5060, "port for agents, frameworks and people")
	flags.IntVar(&f.httpPort, "http-port", 5050, "port for HTTP, which serves the operator service as JSON, and metrics; 0 = none")
	flags.IntVar(&f.raftPort, "raft-port", 5070, "port for the other masters")
	flags.StringVar(&f.dns, "dns", "", "HOST:PORT at which DNS answers for the names of tasks (NAME.FRAMEWORK.tender.), to everybody who reaches it (default: no DNS)")
	flags.BoolVar(&f.ui, "ui", true, "serve the page for people at the HTTP port, to whoever has a certificate or logs in with an operator's token")
	flags.StringVar(&f.profile, "raft-profile", "", "timing of Raft: lan, fast or wan; must be the same on all masters (default lan)")
	flags.StringVar(&f.allocator, "allocator", "fairshare", "how resources are shared: "+strings.Join(allocator.Names(), ", ")+"; must be the same on all masters")
	flags.StringVar(&f.journal, "allocator-journal", "", "file that records what the allocator is told and what it proposes, for 'tender allocator replay'")
	flags.StringVar(&f.audit, "audit-log", "", "file that gets a line of JSON for each change that somebody asks for; '-' = standard output, 'off' = none (default audit.log in the data folder)")
	flags.Int64Var(&f.history.Bytes, "history-size", history.BytesDefault, "how many bytes each half of the history on this master's disk may take: what is notable, and routine")
	flags.DurationVar(&f.history.Age, "history-age", history.AgeDefault, "how long the history keeps what has happened, as far as there is room")
	flags.DurationVar(&f.snapshots.Every, "snapshot-every", 0, "how often this master saves a snapshot of the registry, for 'tender raft snapshot restore'; 0 = never")
	flags.IntVar(&f.snapshots.Keep, "snapshot-keep", 7, "how many of these snapshots are kept")
	flags.StringVar(&f.snapshots.Folder, "snapshot-dir", "", "folder for these snapshots, best on another disk (default snapshots in the data folder)")
	flags.StringVar(&f.minOffer, "min-offer", "", "smallest offer for frameworks that set none themselves: any one of these amounts is enough; must be the same on all masters (default 'cpus:0.01;mem:32')")
	flags.Int64Var(&f.storeBytes, "store-bytes-max", 1<<30, "how many bytes the stores of all frameworks may hold together; must be the same on all masters")
	flags.DurationVar(&f.lives.Others, "certificate-life", trust.Lives{}.Of(trust.Master), "how long certificates of masters, frameworks and people are valid; they are renewed at half of it; must be the same on all masters")
	flags.DurationVar(&f.lives.Agents, "agent-certificate-life", trust.Lives{}.Of(trust.Agent), "how long certificates of agents are valid; an agent that is away for longer must join again")
	f.timeFlags(flags)
	d.lastFlags(flags)
	command.RunE = func(command *cobra.Command, _ []string) error {
		typed := command.Flags().Changed("master")
		if err := d.merge(command); err != nil {
			return err
		}
		d.leaveExported(typed)
		changed := command.Flags().Changed
		f.addressed = changed("bind") || changed("grpc-port") || changed("http-port") || changed("raft-port")
		config, err := f.config(d)
		if err != nil {
			return err
		}
		config.Log.Flags = shownFlags(command.Flags())
		return d.serve(command.Context(), func(ctx context.Context) error {
			if err := d.joinMaster(ctx, &config); err != nil {
				return err
			}
			if err := d.foundCluster(&config); err != nil {
				return err
			}
			return runMaster(ctx, config)
		})
	}
	return command
}

func (f *masterFlags) timeFlags(flags *pflag.FlagSet) {
	t := &f.times
	flags.DurationVar(&t.HeartbeatInterval, "heartbeat", time.Second, "time between two heartbeats of an agent or a scheduler")
	flags.DurationVar(&t.SessionTimeout, "session-timeout", 5*time.Second, "a session ends when its agent or scheduler has been silent for this long")
	flags.DurationVar(&t.TombstoneAfter, "tombstone-after", 30*time.Second, "an agent that has been silent for this long becomes a TOMBSTONE: it is considered dead")
	flags.DurationVar(&t.GoneAfter, "gone-after", 7*24*time.Hour, "an agent that has been a TOMBSTONE for this long is marked gone; 0 = never")
	flags.StringSliceVar(&f.goneAfterOf, "gone-after-of", nil, "--gone-after for agents with an attribute, as ATTRIBUTE=VALUE:TIME,..., such as pool=spot:5m; the first that matches counts")
	flags.DurationVar(&t.OfferTimeout, "offer-timeout", 30*time.Second, "how long a framework may hold an offer")
	flags.DurationVar(&t.RecoveryHold, "recovery-hold", 10*time.Second, "how long, after a failover, roles with a limit wait for agents that are not back yet")
	flags.DurationVar(&t.FailoverTimeout, "failover-timeout", 10*time.Minute, "how long tasks outlive the connection of a framework that sets no time itself")
	flags.DurationVar(&t.PreemptionGrace, "preemption-grace", 10*time.Second, "time between asking a framework for a task's resources and killing the task")
	flags.IntVar(&t.RevocableMargin, "revocable-margin", 10, "percent of what tasks asked for that is never offered as revocable, however little they use; 100 = offer nothing as revocable")
}

func (f *masterFlags) config(d *daemon) (master.Config, error) {
	wrong := f.check()
	var peers []master.Peer
	for _, text := range f.peers {
		peer, err := master.ParsePeer(text)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--peers: %w", err))
		}
		peers = append(peers, peer)
	}
	least, err := minOffers(f.minOffer)
	if err != nil {
		wrong = append(wrong, err)
	}
	if len(wrong) > 0 {
		return master.Config{}, caller.Usage(errors.Join(wrong...))
	}
	classes, err := goneAfterOf(f.goneAfterOf)
	if err != nil {
		return master.Config{}, caller.Usage(err)
	}
	log, err := d.logger()
	if err != nil {
		return master.Config{}, err
	}
	times := f.times
	times.GoneAfterOf = classes
	times.GoneAfter, times.Debug = atOnce(times.GoneAfter), log.level.Shows(zerolog.DebugLevel)
	config := master.Config{
		ID: f.idOr(d), DataDir: d.dataDir, Peers: peers, Advertise: d.advertise, Trust: master.Trust{Insecure: d.insecure, OpenHTTP: d.openHTTP, Lives: f.lives},
		Profile: f.profile, Allocator: f.allocator, AllocatorJournal: f.journal, Core: times, Logger: &log.Logger, Log: master.Log{Written: log.written, Level: log.level},
		AllocatorConfig: allocator.Config{MinOffer: least}, Access: master.Access{AuditLog: f.audit}, DNS: f.dns, NoPage: !f.ui, History: f.history, Snapshots: f.snapshots,
	}
	config.Core.StoreBytesMax = f.storeBytes
	if f.addressed {
		config.GRPC, config.Raft = hostPort(d.bind, f.grpcPort), hostPort(d.bind, f.raftPort)
		config.HTTP = hostPort(d.bind, f.httpPort)
		if f.httpPort == 0 {
			config.HTTP = "none"
		}
	}
	return config, nil
}

// joinMaster gets the cluster's key with a token, and learns who the other masters are, if the folder has no key yet,
// or one whose authority does not count any more.
func (d *daemon) joinMaster(ctx context.Context, config *master.Config) error {
	if d.join == "" {
		return nil
	}
	through, err := d.app.MastersOr(nil)
	if err != nil {
		return err
	}
	if len(through) == 0 {
		return caller.Usagef("--join needs the address of a master: --master HOST:PORT")
	}
	config.Trust.Through = through
	former, err := trust.ReadKey(d.dataDir)
	if err != nil || !former.IsZero() && !countsNoMore(ctx, former, through) {
		return err
	}
	token, err := tokenOf(d.join)
	if err != nil {
		return err
	}
	config.Trust.Obtain = func(id api.MasterID) (trust.Key, []master.Peer, error) {
		if id == "" {
			return trust.Key{}, nil, caller.Usagef("--id is missing; name this master with it at its first start, and its folder remembers it")
		}
		answer, err := joining.Join(ctx, joining.Config{
			Masters: through, Dial: transport.DialTCP, Name: string(id), Kinds: []trust.Kind{trust.Master},
		}, token, trust.NewPass())
		if err != nil {
			return trust.Key{}, nil, err
		}
		if !former.IsZero() {
			if former.Cluster() != answer.Key.Cluster() {
				return trust.Key{}, nil, caller.Usagef("%s is the folder of a master of cluster %s, and the token is of %s", d.dataDir, former.Cluster(), answer.Key.Cluster())
			}
			return answer.Key, nil, trust.RewriteKey(d.dataDir, answer.Key)
		}
		var peers []master.Peer
		for _, id := range slices.Sorted(maps.Keys(answer.Masters)) {
			peers = append(peers, master.Peer{ID: id, Addr: answer.Masters[id]})
		}
		return answer.Key, peers, trust.WriteKey(d.dataDir, answer.Key)
	}
	return nil
}

// countsNoMore says whether a master shows that the authority in the key does not count any more, because another one
// has followed while this master was away. It believes only a certificate, and not what a master says.
func countsNoMore(ctx context.Context, key trust.Key, masters []string) bool {
	authority, err := key.Authority()
	if err != nil {
		return true
	}
	pass, err := authority.Issue(trust.Identity{Kind: trust.Master, Name: "back"}, time.Now())
	if err != nil {
		return true
	}
	holder := trust.NewHolder(pass)
	for _, address := range masters {
		looking, cancel := context.WithTimeout(ctx, lookMax)
		_, err := holder.Look(looking, transport.DialTCP, address)
		cancel()
		if err == nil || api.Is(err, api.Denied) {
			return err != nil
		}
	}
	return false
}

// lookMax is how long a master may take to show its certificate.
const lookMax = 5 * time.Second

// leaveExported forgets the masters of TENDER_MASTER unless this master joins. People export the variable for commands;
// by itself it does not say that a master with an empty folder belongs to that cluster. A master that is named by a flag
// or in a file does.
func (d *daemon) leaveExported(typed bool) {
	_, configured := d.app.Lookup("TENDER_CONFIG")
	exported, _ := d.app.Lookup("TENDER_MASTER")
	if exported == "" || typed || configured || d.file != "" || d.join != "" || d.hasProof() || !isFresh(d.dataDir) {
		return
	}
	d.app.Masters = nil
	fmt.Fprintf(d.app.Stderr, "tender: TENDER_MASTER (%s) does not count here: without --join this master founds a cluster of its own\n", exported)
}

// foundCluster makes the key of a new cluster at the first start of its first master: one that has neither a token to
// join nor named peers, and does not run without certificates.
func (d *daemon) foundCluster(config *master.Config) error {
	if d.insecure || d.join != "" || len(config.Peers) > 0 {
		return nil
	}
	if d.hasProof() || !isFresh(d.dataDir) {
		return nil
	}
	if len(d.app.Masters) > 0 {
		return caller.Usagef("--master names a cluster that is there already: join it by a token, --join FILE (tender token create master -o FILE); " +
			"a new one is made without --master")
	}
	host := cmp.Or(d.advertise, d.bind)
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "HOST"
	}
	address := hostPort(host, portOf(cmp.Or(config.GRPC, client.DefaultMaster)))
	config.Trust.Obtain = func(api.MasterID) (trust.Key, []master.Peer, error) {
		key := trust.NewKey()
		return key, nil, makeKey(d.dataDir, address, key, d.app.Stderr)
	}
	return nil
}

// isFresh says whether no master has run in the folder yet: it contains at most what a new file system, tender init, or
// a start that found a port taken or was killed has left there.
func isFresh(dataDir string) bool {
	entries, err := os.ReadDir(dataDir)
	if err != nil {
		return os.IsNotExist(err)
	}
	return !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return !slices.Contains([]string{trust.KeyFile, trust.FirstTokenFile, master.LockFile, "lost+found"}, e.Name()) &&
			!trust.IsUnfinished(e.Name(), trust.KeyFile) && !trust.IsUnfinished(e.Name(), trust.FirstTokenFile)
	})
}

// goneAfterOf reads values such as pool=spot:5m.
func goneAfterOf(texts []string) ([]core.GoneAfter, error) {
	var classes []core.GoneAfter
	for _, text := range texts {
		class, after, timed := cutLast(text, ":")
		attribute, value, both := strings.Cut(class, "=")
		long, err := time.ParseDuration(after)
		if !timed || !both || attribute == "" || err != nil || long < 0 {
			return nil, fmt.Errorf("--gone-after-of is %q; write ATTRIBUTE=VALUE:TIME, such as pool=spot:5m, or 0s for never", text)
		}
		classes = append(classes, core.GoneAfter{Attribute: attribute, Value: value, After: atOnce(long)})
	}
	return classes, nil
}

// cutLast cuts at the last separator, because a value may contain one too.
func cutLast(text, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(text, separator); i >= 0 {
		return text[:i], text[i+len(separator):], true
	}
	return text, "", false
}

// heartbeatsPerSession is the least number of heartbeats that must be missed before a session times out.
const heartbeatsPerSession = 3

func (f *masterFlags) check() (wrong []error) {
	for name, port := range map[string]int{"grpc-port": f.grpcPort, "raft-port": f.raftPort, "http-port": f.httpPort} {
		if port < 0 || port > 65535 || port == 0 && name != "http-port" {
			wrong = append(wrong, fmt.Errorf("--%s is %d; ports are 1 to 65535", name, port))
		}
	}
	for name, length := range map[string]time.Duration{
		"heartbeat": f.times.HeartbeatInterval, "session-timeout": f.times.SessionTimeout, "tombstone-after": f.times.TombstoneAfter,
		"offer-timeout": f.times.OfferTimeout, "recovery-hold": f.times.RecoveryHold, "failover-timeout": f.times.FailoverTimeout,
		"preemption-grace": f.times.PreemptionGrace,
	} {
		if length <= 0 {
			wrong = append(wrong, fmt.Errorf("--%s is %v; write a time above zero, such as 5s", name, length))
		}
	}
	if beat, session := f.times.HeartbeatInterval, f.times.SessionTimeout; beat > 0 && session > 0 && session < heartbeatsPerSession*beat {
		wrong = append(wrong, fmt.Errorf("--session-timeout is %v, less than %d heartbeats of %v: one that is late would end sessions; write %v or more, or a shorter --heartbeat",
			session, heartbeatsPerSession, beat, heartbeatsPerSession*beat))
	}
	for name, life := range map[string]struct{ is, most time.Duration }{
		"certificate-life": {f.lives.Others, rights.RevokedFor}, "agent-certificate-life": {f.lives.Agents, registry.BarredRemembered},
	} {
		switch {
		case life.is < trust.LifeMin:
			wrong = append(wrong, fmt.Errorf("--%s is %v; a certificate that ends sooner than after %v could end while it is renewed", name, life.is, trust.LifeMin))
		case life.is > life.most:
			wrong = append(wrong, fmt.Errorf("--%s is %v; whoever was revoked or removed is remembered for %v, and a certificate that lives longer would count again", name, life.is, life.most))
		}
	}
	if f.storeBytes < 1 || f.storeBytes > 1<<30 {
		wrong = append(wrong, fmt.Errorf("--store-bytes-max is %d; write a number of bytes from 1 to %d, which is 1 GiB", f.storeBytes, 1<<30))
	}
	if margin := f.times.RevocableMargin; margin < 1 || margin > 100 {
		wrong = append(wrong, fmt.Errorf("--revocable-margin is %d; write percents from 1 to 100", margin))
	}
	if f.snapshots.Keep < 1 {
		wrong = append(wrong, fmt.Errorf("--snapshot-keep is %d; write how many, 1 or more", f.snapshots.Keep))
	}
	if every := f.snapshots.Every; every < 0 || every > 0 && every < time.Second {
		wrong = append(wrong, fmt.Errorf("--snapshot-every is %v; write a time such as 6h, at least 1s, or 0 for never", every))
	}
	if f.times.GoneAfter < 0 {
		wrong = append(wrong, fmt.Errorf("--gone-after is %v; write a time such as 168h, or 0 for never", f.times.GoneAfter))
	}
	slices.SortFunc(wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return wrong
}

// masterHeapBytes is how far a master lets its heap grow before it collects garbage. Offers wait during a collection. A
// master of a small cluster uses some 5 MiB, with which Go would by default collect tens of times a second under load.
const masterHeapBytes = 48 << 20

// holdMasterHeap sets that floor, unless the user has set GOGC.
var holdMasterHeap = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		heap.HoldFloor(masterHeapBytes)
	}
})

func runMaster(ctx context.Context, config master.Config) error {
	holdMasterHeap()
	m, err := master.New(config)
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// devProfile returns the timing of the quorum. A single master waits for nobody and is up at once; several share a
// machine that may be busy.
func devProfile(masters int) string {
	if masters == 1 {
		return "fast"
	}
	return "lan"
}

// idOr returns the ID of the master. A single one without a name gets one, unless it joins or its folder is in use and
// has it.
func (f *masterFlags) idOr(d *daemon) api.MasterID {
	if f.id != "" || len(f.peers) > 0 || d.join != "" || !isFresh(d.dataDir) {
		return api.MasterID(f.id)
	}
	return "m1"
}

// minOffers reads the amounts of which each alone is enough for an offer; none: the allocator's own.
func minOffers(text string) ([]allocator.MinOffer, error) {
	if text == "" {
		return nil, nil
	}
	resources, err := settings.ParseResources(text)
	if err != nil {
		return nil, fmt.Errorf("--min-offer: %w", err)
	}
	var least []allocator.MinOffer
	for _, item := range resources.Items() {
		if item.Scalar <= 0 || item.Label != (api.Label{Name: item.Name}) {
			return nil, fmt.Errorf("--min-offer: %s is no plain amount; write such as 'cpus:0.1;mem:64'", item.Label)
		}
		least = append(least, allocator.MinOffer{Name: item.Name, Milli: int64(item.Scalar)})
	}
	return least, nil
}

func devMaster(m dev.Master, f devFlags, log logs) master.Config {
	config := master.Config{
		ID: api.MasterID(m.ID), DataDir: m.Dir, GRPC: m.GRPC, HTTP: m.HTTP, Raft: m.Raft, Trust: master.Trust{Insecure: m.Insecure, OpenHTTP: !m.Insecure},
		Profile: devProfile(f.masters), Allocator: f.allocator, AllocatorJournal: f.journal, Logger: &log.Logger, Log: master.Log{Level: log.level},
	}
	for _, peer := range m.Peers {
		config.Peers = append(config.Peers, master.Peer{ID: api.MasterID(peer.ID), Addr: peer.Raft})
	}
	return config
}

// devProof returns the flag with which a child runs without certificates, or without them only on HTTP.
func devProof(insecure bool) string {
	if insecure {
		return "--insecure"
	}
	return "--open-http"
}

// devMasterArgs returns the arguments that start the same master as a child.
func devMasterArgs(m dev.Master, f devFlags) []string {
	var peers []string
	for _, peer := range m.Peers {
		peers = append(peers, peer.ID+"="+peer.Raft)
	}
	args := []string{
		"master", devProof(m.Insecure), "--stop-on-eof", "--id", m.ID, "--data-dir", m.Dir, "--bind", hostOf(m.GRPC),
		"--grpc-port", fmt.Sprint(portOf(m.GRPC)), "--http-port", fmt.Sprint(portOf(m.HTTP)), "--raft-port", fmt.Sprint(portOf(m.Raft)),
		"--peers", strings.Join(peers, ","), "--raft-profile", devProfile(f.masters), "--log-format", "console", "--log-level", "error",
	}
	if f.verbose {
		args[len(args)-1] = "debug"
	}
	if f.allocator != "" {
		args = append(args, "--allocator", f.allocator)
	}
	if f.journal != "" {
		args = append(args, "--allocator-journal", f.journal)
	}
	return args
}
