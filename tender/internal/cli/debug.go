package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/version"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/master/history"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/doctor"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/past"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

const (
	// debugEvents is how much history an archive has.
	debugEvents = 2000
	// debugAnswerMax is how long a master or an agent may take for one file, besides the time of a recorded profile.
	debugAnswerMax = 15 * time.Second
	// cpuMax is the longest profile that masters and agents record.
	cpuMax = 30 * time.Second
)

func debugCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{
		Use:   "debug [AGENT...]",
		Short: "Gather what helps to find a fault into one archive",
		Long: "Gather what helps to find a fault into one archive: of each master, and of the agents that are named, version, flags,\n" +
			"metrics, profiles and the newest lines of its log; of the cluster its membership, agents, frameworks and roles, what\n" +
			"has happened, and what 'tender doctor' and 'tender verify' say of it. Nothing is changed.\n\n" +
			"What looks like a secret is removed: tokens, keys, passwords. Environments and commands of tasks are not gathered.\n" +
			"Read the archive all the same before you give it to others: it names machines, people and jobs.\n\n" +
			"What you may not see is missing, and listed in missing.txt. Masters' logs and profiles take the right to admin, those\n" +
			"of agents to operate them.",
		Example: "  tender debug\n" +
			"  tender debug agent-7 --cpu 10s --file slow.tar.gz",
		ValidArgsFunction: completeIDs(who, "agents"),
	}
	file := command.Flags().String("file", "", "file to make; it must not exist yet (default tender-debug-TIME.tar.gz)")
	cpu := command.Flags().Duration("cpu", 0, "for how long each process records what takes its processor time; 0 = not at all")
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
		if *cpu < 0 || *cpu > cpuMax || *cpu%time.Second != 0 {
			return caller.Usagef("--cpu is %v; write whole seconds, up to %v", *cpu, cpuMax)
		}
		if *file == "" {
			*file = "tender-debug-" + who.Now().UTC().Format("20060102T150405Z") + ".tar.gz"
		}
		if _, err := os.Lstat(*file); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists already; name a new file by --file", *file)
		}
		g := &gathering{client: c, now: who.Now, cpu: *cpu}
		if err := whole(*file, func(to io.Writer) error { return g.write(ctx, to, args) }); err != nil {
			return err
		}
		for _, missing := range g.missing {
			fmt.Fprintln(who.Stderr, "missing: "+show.Clean(missing))
		}
		_, err := fmt.Fprintf(who.Stdout, "%s: %s; read it before you give it to others\n", *file, words.Count(g.files, "file"))
		return err
	})
	return command
}

// gathering is the making of one archive.
type gathering struct {
	client  *client.Client
	now     func() time.Time
	cpu     time.Duration
	to      *tar.Writer
	files   int
	missing []string
}

// write writes the archive. What can't be had is missing; the error says that the archive can't be written, that an
// agent is not known, or that no master answers.
func (g *gathering) write(ctx context.Context, to io.Writer, agents []string) error {
	masters, err := g.client.Operator().ListMasters(ctx, &apiv1.ListRequest{Stale: true})
	if err != nil {
		return err
	}
	zipped := gzip.NewWriter(to)
	g.to = tar.NewWriter(zipped)
	steps := []func() error{
		func() error { return g.add("version.txt", []byte(version.String()+"\n")) },
		func() error { return g.message("masters.json", masters, nil) },
		func() error { return g.lists(ctx) },
		func() error { return g.judge(ctx) },
	}
	for _, m := range masters.GetItems() {
		steps = append(steps, func() error {
			return g.daemon("masters/"+m.GetId(), func(path string) ([]byte, error) {
				answer, err := g.bounded(ctx, func(ctx context.Context) (client.Answer, error) {
					return g.client.GetFromMaster(ctx, m.GetHttpAddress(), path)
				})
				return answer.Body, err
			})
		})
	}
	for _, word := range agents {
		found, err := nouns.Agents.Find(ctx, g.client, word)
		if err != nil {
			return err
		}
		steps = append(steps, func() error { return g.lookAtAgent(ctx, found.ID, found.Message.(*apiv1.AgentView).GetAddress()) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if err := g.add("missing.txt", []byte(strings.Join(append(g.missing, ""), "\n"))); err != nil {
		return err
	}
	return errors.Join(g.to.Close(), zipped.Close())
}

// bounded asks for one file.
func (g *gathering) bounded(ctx context.Context, ask func(context.Context) (client.Answer, error)) (client.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, debugAnswerMax+g.cpu)
	defer cancel()
	return ask(ctx)
}

// add adds a file. What looks like a secret is removed from a text; a profile has only names of functions.
func (g *gathering) add(name string, content []byte) error {
	if path.Ext(name) != ".pprof" {
		content = []byte(trust.Redact(string(content)))
	}
	g.files++
	if err := g.to.WriteHeader(&tar.Header{Name: "tender-debug/" + name, Mode: 0o600, Size: int64(len(content)), ModTime: g.now()}); err != nil {
		return err
	}
	_, err := g.to.Write(content)
	return err
}

// message adds a message as JSON, or notes why it is missing.
func (g *gathering) message(name string, message proto.Message, err error) error {
	if err != nil {
		g.miss(name, err)
		return nil
	}
	text, err := wire.JSON(message)
	if err != nil {
		return err
	}
	return g.add(name, text)
}

// value adds what is no message in the same way.
func (g *gathering) value(name string, value any, err error) error {
	if err != nil {
		g.miss(name, err)
		return nil
	}
	var text strings.Builder
	if err := show.Indented(&text, value); err != nil {
		return err
	}
	return g.add(name, []byte(text.String()))
}

func (g *gathering) miss(name string, err error) {
	g.missing = append(g.missing, trust.Redact(name+": "+caller.Sentence(err)))
}

// lists adds what the cluster has, and what has happened. Tasks are left out: their environments are their owners'.
func (g *gathering) lists(ctx context.Context) error {
	operator, all := g.client.Operator(), &apiv1.ListRequest{}
	cluster, err := operator.GetCluster(ctx, &apiv1.GetClusterRequest{})
	wrong := g.message("cluster.json", cluster, err)
	peers, err := g.client.Raft().ListPeers(ctx, &apiv1.ListPeersRequest{})
	wrong = errors.Join(wrong, g.message("peers.json", peers, err))
	agents, _, err := client.All(ctx, operator.ListAgents, 0, all)
	wrong = errors.Join(wrong, g.message("agents.json", &apiv1.ListAgentsResponse{Items: agents}, err))
	frameworks, _, err := client.All(ctx, operator.ListFrameworks, 0, all)
	wrong = errors.Join(wrong, g.message("frameworks.json", &apiv1.ListFrameworksResponse{Items: frameworks}, err))
	roles, _, err := client.All(ctx, operator.ListRoles, 0, all)
	wrong = errors.Join(wrong, g.message("roles.json", &apiv1.ListRolesResponse{Items: roles}, err))
	happened, err := past.Read(ctx, g.client, history.Query{Limit: debugEvents})
	if err != nil {
		happened = &past.Answer{}
	}
	return errors.Join(wrong, g.message("events.json", &apiv1.ListEventsResponse{Items: happened.Events, Gaps: happened.Missing()}, err))
}

// judge adds what the doctor and the verifier say.
func (g *gathering) judge(ctx context.Context) error {
	findings, err := doctor.Cluster(ctx, g.client, g.now)
	wrong := g.value("doctor.json", map[string]any{"items": findings}, err)
	watch, err := watchFor(ctx, looker{client: g.client, now: g.now}, verifyWait)
	if err != nil {
		g.miss("verify.json", err)
		return wrong
	}
	return errors.Join(wrong, g.value("verify.json", verdict(watch), nil))
}

// daemon adds the files of one process.
func (g *gathering) daemon(folder string, get func(path string) ([]byte, error)) error {
	files := [][2]string{
		{"flags.json", "/v1/flags"}, {"metrics.txt", "/metrics"}, {"log.json", "/v1/log"},
		{"goroutines.txt", "/debug/pprof/goroutine?debug=1"}, {"heap.pprof", "/debug/pprof/heap"},
	}
	if g.cpu > 0 {
		files = append(files, [2]string{"cpu.pprof", fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(g.cpu.Seconds()))})
	}
	for _, file := range files {
		content, err := get(file[1])
		if err != nil {
			g.miss(folder+"/"+file[0], err)
			continue
		}
		if err := g.add(folder+"/"+file[0], content); err != nil {
			return err
		}
	}
	return nil
}

// lookAtAgent adds the files of an agent. Its log and its profiles need a ticket for those who operate it.
func (g *gathering) lookAtAgent(ctx context.Context, id, address string) error {
	toRead, _, noReading := g.client.ReadTicket(ctx, api.TaskRef{}, api.AgentID(id))
	toExec, noExec := g.client.ExecTicket(ctx, api.TaskRef{}, api.AgentID(id))
	return g.daemon("agents/"+id, func(path string) ([]byte, error) {
		ticket, refused := toRead, noReading
		if path == "/v1/log" || strings.HasPrefix(path, "/debug/") {
			ticket, refused = toExec, noExec
		}
		if refused != nil && path != "/metrics" {
			return nil, refused
		}
		answer, err := g.bounded(ctx, func(ctx context.Context) (client.Answer, error) {
			return g.client.GetFromAgent(ctx, address, path, ticket)
		})
		return answer.Body, err
	})
}
