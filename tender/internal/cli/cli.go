// Package cli is the command line: the one place that reads flags, the environment and signals and ends the process. It
// starts what a command names and reports the result in sentences; it decides nothing about clusters.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/heap"
	"github.com/tenderhq/tender/internal/logging"
	"github.com/tenderhq/tender/internal/version"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/dev"
	"github.com/tenderhq/tender/tender/internal/cli/jobcmd"
)

// heapBytes is how far the heap of a command grows before garbage is collected. What people type ends before that. The
// executor for commands has little in use, and would otherwise collect at every few hundred of its tasks.
const heapBytes = 16 << 20

// Main runs the command of this process and ends it.
func Main() {
	args, seen := hideTokens(os.Args[1:])
	if seen {
		fmt.Fprintln(os.Stderr, tokenSeen)
	}
	ctx, stop := interrupts()
	app := &App{Caller: caller.Caller{
		Stdout: os.Stdout, Stderr: os.Stderr,
		Lookup: os.LookupEnv, Now: time.Now,
		Terminal: term.IsTerminal(int(os.Stderr.Fd())),
		Asks:     term.IsTerminal(int(os.Stderr.Fd())) && term.IsTerminal(int(os.Stdin.Fd())),
		Stdin:    os.Stdin,
	}}
	if os.Getenv("GOGC") == "" {
		app.releaseHeap = heap.HoldFloor(heapBytes)
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
	return caller.Failed
}

// App runs one command of a caller, and has the logs that the command writes.
type App struct {
	caller.Caller

	writers []*logging.Writer // the writers of logs
	// logFiles are the files to which these write.
	logFiles []*logging.File
	// releaseHeap ends the floor that this process has for its heap; nil: it has none.
	releaseHeap func()
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
		return caller.OK
	}
	var stop interrupted
	stopped := errors.As(context.Cause(ctx), &stop)
	text := caller.Sentence(err)
	if stopped && (text == context.Canceled.Error() || text == stop.Error()) {
		text = "" // a person who has pressed Ctrl-C knows that
	}
	if text != "" {
		fmt.Fprintln(a.Stderr, "tender: "+text)
	}
	if stopped && caller.CodeOf(err) == caller.Failed {
		return signalCode(stop.signal)
	}
	return caller.CodeOf(err)
}

func (a *App) root() *cobra.Command {
	who := &a.Caller
	root := &cobra.Command{
		Use:   "tender",
		Short: "Share one cluster between many frameworks by resource offers",
		Long: "Tender shares one cluster between many frameworks by resource offers.\n\n" +
			"Start a whole cluster on this machine with 'tender dev'; then, in another shell,\n" +
			"run a task on it with 'tender run -- hostname'.",
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              noSuchCommand,
		RunE:              showHelp,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.PersistentFlags().StringSliceVar(&who.Masters, "master", nil,
		"addresses of masters, HOST:PORT,... ($TENDER_MASTER; default "+client.DefaultMaster+")")
	root.PersistentFlags().StringVar(&who.Context, "context", "",
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
	add(root, groupStart, a.devCommand(), initCommand(who), a.masterCommand(), a.agentCommand(), loginCommand(who), contextCommand(who))
	add(root, groupStart, jobsEnv(who).ManagerCommand(), mesosCommand(who))
	add(root, groupWork, jobsEnv(who).Command())
	add(root, groupWork, runCommand(who), attachCommand(who), logsCommand(who), filesCommand(who), cpCommand(who), execCommand(who), killCommand(who), teardownCommand(who))
	add(root, groupLook, getCommand(who), describeCommand(who), explainCommand(who), eventsCommand(who), usageCommand(who), a.topCommand(), uiCommand(who), allocatorCommand(who), auditCommand(who), verifyCommand(who), doctorCommand(who), debugCommand(who), whoamiCommand(who), canICommand(who))
	add(root, groupOperate, markCommands(who)...)
	add(root, groupOperate, maintenanceCommand(who), pruneCommand(who))
	add(root, groupOperate, roleCommands(who)...)
	add(root, groupOperate, reserveCommands(who)...)
	add(root, groupOperate, grantCommand(who), revokeCommand(who))
	add(root, groupOperate, raftCommand(who), tokenCommand(who), caCommand(who), secretCommand(who))
	add(root, "", executorCommand(who), adapterCommand(who), enterCommand(), versionCommand(who), completionCommand(who), exitCodesTopic())
	return root
}

// jobsEnv returns what the commands about jobs need.
func jobsEnv(who *caller.Caller) jobcmd.Env {
	return jobcmd.Env{
		Caller: who,
		BesideDev: func(ctx context.Context, masters []string) (string, error) {
			return tokenBesideDev(ctx, who, masters, dev.JobsToken)
		},
		Logs: func(ctx context.Context, c *client.Client, task string, follow, stderr bool) error {
			return taskLogs(ctx, who, c, task, follow, stderr)
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
				return caller.UnknownWord("command", args[len(args)-max(1, len(rest))], commandNames(command.Root()))
			}
			return found.Help()
		},
	}
}

func versionCommand(who *caller.Caller) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say which build this is", Args: caller.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(who.Stdout, "tender %s %s %s/%s\n", version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
