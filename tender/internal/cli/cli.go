// Package cli is the command line: the one place that reads flags, the environment and signals and ends the process. It
// starts what a command names and reports the result in sentences; it decides nothing about clusters.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/logging"
	"github.com/tenderhq/tender/internal/version"
	"github.com/tenderhq/tender/tender/internal/cli/contexts"
	"github.com/tenderhq/tender/tender/internal/cli/dev"
	"github.com/tenderhq/tender/tender/internal/cli/jobcmd"
)

// Main runs the command of this process and ends it.
func Main() {
	args, seen := hideTokens(os.Args[1:])
	if seen {
		fmt.Fprintln(os.Stderr, tokenSeen)
	}
	ctx, stop := interrupts()
	app := &App{
		Stdout: os.Stdout, Stderr: os.Stderr,
		Lookup: os.LookupEnv, Now: time.Now,
		Terminal: term.IsTerminal(int(os.Stderr.Fd())),
		Asks:     term.IsTerminal(int(os.Stderr.Fd())) && term.IsTerminal(int(os.Stdin.Fd())),
		Stdin:    os.Stdin,
	}
	code := app.Run(ctx, args)
	stop()
	os.Exit(code)
}

// repeatedWithin is the time within which a second signal counts as the same one: some senders signal both the process
// and its group.
const repeatedWithin = 300 * time.Millisecond

// interrupts ends the context at the first signal to stop, and the process at the second one.
func interrupts() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() { // it lives as long as the process
		cancel(interrupted{<-signals})
		first := time.Now()
		second := <-signals
		for time.Since(first) < repeatedWithin {
			second = <-signals
		}
		fmt.Fprintln(os.Stderr, "tender: left at once; what was still running may need a moment to notice")
		os.Exit(signalCode(second))
	}()
	return ctx, func() { signal.Stop(signals) }
}

// interrupted is the cause of a context that a signal has ended.
type interrupted struct{ signal os.Signal }

func (i interrupted) Error() string { return "interrupted (" + i.signal.String() + ")" }

// signalCode returns the exit code that shells show for a process that a signal has ended.
func signalCode(s os.Signal) int {
	if number, ok := s.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return codeFailed
}

// App is what a command needs from its surroundings.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Lookup         func(string) (string, bool) // the environment
	Now            func() time.Time
	Terminal       bool // whether Stderr is a terminal
	Asks           bool // whether a person reads Stderr and types into Stdin
	// Dial opens connections to masters. Default TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	masters []string          // --master
	context string            // --context
	writers []*logging.Writer // the writers of logs
	// logFiles are the files to which these write.
	logFiles []*logging.File
}

// lastLinesMax is how long writing the last lines of a log may take.
const lastLinesMax = time.Second

// Run executes one command and returns the exit code. It has printed any error.
func (a *App) Run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	err := root.ExecuteContext(ctx)
	for _, log := range a.writers {
		log.Close(lastLinesMax)
	}
	for _, file := range a.logFiles {
		_ = file.Close() // what could not be written is lost; nobody is left to tell
	}
	if err == nil {
		return codeOK
	}
	var stop interrupted
	stopped := errors.As(context.Cause(ctx), &stop)
	text := sentence(err)
	if stopped && (text == context.Canceled.Error() || text == stop.Error()) {
		text = "" // a person who has pressed Ctrl-C knows that
	}
	if text != "" {
		fmt.Fprintln(a.Stderr, "tender: "+text)
	}
	if stopped && codeOf(err) == codeFailed {
		return signalCode(stop.signal)
	}
	return codeOf(err)
}

func (a *App) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tender",
		Short: "Share one cluster between many frameworks by resource offers",
		Long: "Tender shares one cluster between many frameworks by resource offers.\n\n" +
			"Start a whole cluster on this machine with 'tender dev'; then, in another shell,\n" +
			"run a task on it with 'tender run -- hostname'.",
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              a.noSuchCommand,
		RunE:              showHelp,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.PersistentFlags().StringSliceVar(&a.masters, "master", nil,
		"addresses of masters, HOST:PORT,... ($TENDER_MASTER; default "+client.DefaultMaster+")")
	root.PersistentFlags().StringVar(&a.context, "context", "",
		"name under which you have joined the cluster ($TENDER_CONTEXT; default: the one chosen by 'tender context use')")
	root.PersistentFlags().SortFlags = false
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	root.AddGroup(
		&cobra.Group{ID: groupStart, Title: "Clusters:"},
		&cobra.Group{ID: groupWork, Title: "Work:"},
		&cobra.Group{ID: groupLook, Title: "Look:"},
		&cobra.Group{ID: groupOperate, Title: "Operate:"},
	)
	root.SetHelpCommandGroupID("")
	add(root, groupStart, a.devCommand(), a.initCommand(), a.masterCommand(), a.agentCommand(), a.loginCommand(), a.contextCommand())
	add(root, groupStart, a.jobsEnv().ManagerCommand(), a.mesosCommand())
	add(root, groupWork, a.jobsEnv().Command())
	add(root, groupWork, a.runCommand(), a.attachCommand(), a.logsCommand(), a.filesCommand(), a.cpCommand(), a.execCommand(), a.killCommand(), a.teardownCommand())
	add(root, groupLook, a.getCommand(), a.describeCommand(), a.explainCommand(), a.eventsCommand(), a.usageCommand(), a.topCommand(), a.uiCommand(), a.allocatorCommand(), a.auditCommand(), a.verifyCommand(), a.doctorCommand(), a.debugCommand(), a.whoamiCommand(), a.canICommand())
	add(root, groupOperate, a.markCommands()...)
	add(root, groupOperate, a.maintenanceCommand())
	add(root, groupOperate, a.roleCommands()...)
	add(root, groupOperate, a.reserveCommands()...)
	add(root, groupOperate, a.grantCommand(), a.revokeCommand())
	add(root, groupOperate, a.raftCommand(), a.tokenCommand(), a.caCommand(), a.secretCommand())
	add(root, "", a.executorCommand(), a.adapterCommand(), enterCommand(), a.versionCommand(), a.completionCommand(), exitCodesTopic())
	return root
}

// jobsEnv returns what the commands about jobs need.
func (a *App) jobsEnv() jobcmd.Env {
	return jobcmd.Env{
		Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, Now: a.Now, Lookup: a.Lookup,
		Masters: func() ([]string, error) { return a.mastersOr(nil) }, Client: a.client, Between: between, Usage: usage,
		BesideDev: func(ctx context.Context, masters []string) (string, error) {
			return a.besideDev(ctx, masters, dev.JobsToken)
		},
		Logs: func(ctx context.Context, c *client.Client, task string, follow, stderr bool) error {
			return taskLogs(ctx, a, c, task, follow, stderr)
		},
	}
}

// The groups of the help text.
const (
	groupStart   = "start"
	groupWork    = "work"
	groupLook    = "look"
	groupOperate = "operate"
)

func add(parent *cobra.Command, group string, commands ...*cobra.Command) {
	for _, command := range commands {
		command.GroupID = group
		if command.Args == nil && command.HasSubCommands() {
			command.Args = noSuchSubcommand
			command.RunE = showHelp
		}
		parent.AddCommand(command)
	}
}

func showHelp(command *cobra.Command, _ []string) error { return command.Help() }

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(command *cobra.Command, args []string) error {
			found, rest, err := command.Root().Find(args)
			if err != nil || found == nil || len(rest) > 0 {
				return unknownWord("command", args[len(args)-max(1, len(rest))], commandNames(command.Root()))
			}
			return found.Help()
		},
	}
}

// cluster returns the cluster that a command is about, and who the command is there.
func (a *App) cluster(ctx context.Context) (contexts.Cluster, error) {
	masters, err := a.mastersOr(nil)
	if err != nil {
		return contexts.Cluster{}, err
	}
	return contexts.Find(ctx, contexts.Wish{
		Context: a.context, Masters: masters, Master: client.DefaultMaster, Lookup: a.Lookup, Dial: a.Dial,
		Waits: func(err error) { a.sayUnless(false)("waiting for a master: %s", sentence(err)) },
	})
}

// client returns a client of the masters of that cluster.
func (a *App) client(ctx context.Context) (*client.Client, error) {
	where, err := a.cluster(ctx)
	if err != nil {
		return nil, err
	}
	c, err := clientOf(where, a.sayOnce())
	if err != nil {
		return nil, usage(err)
	}
	return c, nil
}

// sayOnce returns a function that says why a watch hears nothing, each reason once.
func (a *App) sayOnce() func(error) {
	said := ""
	return func(err error) {
		if why := sentence(err); why != said {
			said = why
			fmt.Fprintf(a.Stderr, "tender: waiting for a master: %s\n", why)
		}
	}
}

func clientOf(where contexts.Cluster, waiting func(error)) (*client.Client, error) {
	return client.New(client.Config{
		Masters: where.Masters, Dial: where.ToMasters(), DialAgent: where.ToAgents(), Tickets: where.Holder != nil, Keep: where.Keep, Told: where.Told,
		Waiting: waiting,
	})
}

// mastersOr returns the masters that --master names, else those of the environment, else otherwise.
func (a *App) mastersOr(otherwise []string) ([]string, error) {
	masters, where := a.masters, "--master"
	if len(masters) == 0 {
		if text, ok := a.Lookup("TENDER_MASTER"); ok && text != "" {
			masters, where = splitList(text), "TENDER_MASTER"
		}
	}
	for _, address := range masters {
		if err := client.CheckAddress(address); err != nil {
			return nil, usage(fmt.Errorf("%s: %w", where, err))
		}
	}
	if len(masters) == 0 {
		return otherwise, nil
	}
	return masters, nil
}

// withClient makes the function of a command that calls the leading master.
func (a *App) withClient(run func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) (err error) {
		c, err := a.client(command.Context())
		if err != nil {
			return err
		}
		defer func() {
			if failed := c.Close(); err == nil {
				err = failed
			}
		}()
		return run(command.Context(), c, args)
	}
}

func (a *App) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say which build this is", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.Stdout, "tender %s %s %s/%s\n", version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
