package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenderhq/tender/internal/heap"
	"github.com/tenderhq/tender/internal/logging"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

// daemon is what the commands for masters and agents have in common.
type daemon struct {
	app  *App
	file string // --config

	dataDir, bind, advertise string
	insecure                 bool
	join                     string // a token
	proof                    string // the file in the data folder that proves the identity of this process
	logLevel, logFormat      string
	logFile, logFileSize     string
	logFiles                 int
	stopOnEOF, openHTTP      bool
}

// flags adds the flags that master and agent share. Each is also an environment variable and a key of the file.
func (d *daemon) flags(flags *pflag.FlagSet, dataDir string) {
	flags.SortFlags = false
	flags.StringVar(&d.file, "config", "", "TOML file whose keys are the names of flags")
	flags.StringVar(&d.dataDir, "data-dir", dataDir, "folder for everything that must survive a restart; no two processes may share one")
	flags.StringVar(&d.bind, "bind", "127.0.0.1", "address to listen on")
	flags.StringVar(&d.advertise, "advertise", "", "host at which others reach this process (default: the one of --bind; required when that is 0.0.0.0)")
	flags.StringVar(&d.join, "join", "", "`file` with the token by which this process joins the cluster at its first start")
	flags.BoolVar(&d.insecure, "insecure", false, "run without certificates, for trusted networks only: everybody who reaches this process may do everything")
}

// lastFlags adds the shared flags that come after those of master or agent.
func (d *daemon) lastFlags(flags *pflag.FlagSet) {
	flags.StringVar(&d.logLevel, "log-level", "info", "log from this level on: debug, info, warn or error")
	flags.StringVar(&d.logFormat, "log-format", "auto", "json, console, or auto: console on a terminal, else json")
	flags.StringVar(&d.logFile, "log-file", "", "file for the log, which begins anew when it is full (default: standard error, for a supervisor that keeps it)")
	flags.StringVar(&d.logFileSize, "log-file-size", "64", "how many MB the file of the log may have before it becomes FILE.1")
	flags.IntVar(&d.logFiles, "log-files", 5, "how many files the log has at most; the oldest one goes")
	flags.BoolVar(&d.stopOnEOF, "stop-on-eof", false, "end when standard input ends")
	flags.BoolVar(&d.openHTTP, "open-http", false, "serve HTTP on loopback without certificates, as 'tender dev' does")
	for _, ofDev := range []string{"stop-on-eof", "open-http"} {
		if err := flags.MarkHidden(ofDev); err != nil {
			panic(err) // it is defined in the lines above
		}
	}
}

// envHelp is the end of the help of both commands.
const envHelp = "Every flag can also be given as an environment variable (TENDER_DATA_DIR for --data-dir) or as a key in the file that\n" +
	"--config names (data-dir = \"...\"). A flag overrides the environment, which overrides the file."

// notSettings are flags that make sense only on a command line.
var notSettings = []string{"help", "config", "stop-on-eof", "open-http", "context"}

// merge sets flags that the command line has not set, from the environment and the file.
func (d *daemon) merge(command *cobra.Command, without ...string) error {
	var names []string
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(notSettings, f.Name) && !slices.Contains(without, f.Name) {
			names = append(names, f.Name)
		}
	})
	file, err := d.readFile(command)
	if err != nil {
		return err
	}
	if err := settings.Merge(command.Flags(), names, d.app.Lookup, file); err != nil {
		return caller.Usage(err)
	}
	return d.check()
}

func (d *daemon) readFile(command *cobra.Command) (*settings.File, error) {
	name := d.file
	if text, ok := d.app.Lookup("TENDER_CONFIG"); ok && !command.Flags().Changed("config") {
		name = text
	}
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, caller.Usagef("--config: %w", err)
	}
	return &settings.File{Name: name, Text: string(text)}, nil
}

// check reports everything that is wrong with the shared flags.
func (d *daemon) check() error {
	var wrong []error
	if net.ParseIP(d.bind) == nil {
		wrong = append(wrong, fmt.Errorf("--bind %q is not an address of this machine; write an IP such as 127.0.0.1 or 0.0.0.0", d.bind))
	}
	switch {
	case d.insecure && d.join != "":
		wrong = append(wrong, errors.New("--insecure and --join exclude each other: who joins a cluster does nothing unencrypted"))
	case d.insecure && d.hasProof():
		wrong = append(wrong, fmt.Errorf("--insecure is said, and %s is of a cluster in which nothing is unencrypted; leave it out, or name another folder",
			filepath.Join(d.dataDir, d.proof)))
	}
	if d.dataDir == "" {
		wrong = append(wrong, errors.New("--data-dir is empty; name a folder"))
	}
	if !slices.Contains([]string{"json", "console", "auto"}, d.logFormat) {
		wrong = append(wrong, fmt.Errorf("--log-format %q is unknown; write json, console or auto", d.logFormat))
	}
	if _, err := logging.NewLevel(d.logLevel); err != nil {
		wrong = append(wrong, fmt.Errorf("--log-level: %w", err))
	}
	if d.logFiles < 1 {
		wrong = append(wrong, fmt.Errorf("--log-files is %d; write how many, 1 or more", d.logFiles))
	}
	if len(wrong) == 0 {
		return nil
	}
	return caller.Usage(errors.Join(wrong...))
}

// hasProof says whether the data folder has the file that proves the identity of this process.
func (d *daemon) hasProof() bool {
	_, err := os.Stat(filepath.Join(d.dataDir, d.proof))
	return err == nil
}

// logs are the parts of a daemon's log.
type logs struct {
	zerolog.Logger
	written *logging.Writer
	level   *logging.Level
}

// logger makes a logger that writes to stderr, lines for people on a terminal and JSON for machines, or to --log-file.
func (d *daemon) logger() (logs, error) {
	out, onTerminal := d.app.Stderr, d.app.Terminal
	if d.logFile != "" {
		size, err := megabytes("log-file-size", d.logFileSize)
		if err != nil {
			return logs{}, err
		}
		file, err := logging.OpenFile(d.logFile, size, d.logFiles)
		if err != nil {
			return logs{}, caller.Usagef("--log-file: %w", err)
		}
		d.app.logFiles = append(d.app.logFiles, file)
		out, onTerminal = file, false
	}
	return d.app.newLogger(out, d.logLevel, d.logFormat == "console" || d.logFormat == "auto" && onTerminal, onTerminal), nil
}

// newLogger makes a logger that never delays the code that logs. Run writes the rest of it at the end.
func (a *App) newLogger(out io.Writer, name string, console, color bool) logs {
	if console {
		out = zerolog.ConsoleWriter{Out: out, TimeFormat: "15:04:05.000000", NoColor: !color}
	}
	w := logging.NewWriter(out)
	a.writers = append(a.writers, w)
	level, err := logging.NewLevel(name)
	if err != nil { // check has refused such a level
		level, _ = logging.NewLevel("info")
	}
	return logs{zerolog.New(w).Hook(level, logging.Stamp), w, level}
}

// errInputEnded is why a daemon ends that was told to end with its standard input.
var errInputEnded = errors.New("standard input has ended")

// serve runs until the context ends, or, if that was asked for, until standard input ends. A daemon is idle for most of
// its life and is to be small, so Go's own rule decides when it collects garbage, until it takes a floor of its own.
func (d *daemon) serve(ctx context.Context, run func(context.Context) error) error {
	if d.app.releaseHeap != nil {
		d.app.releaseHeap()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if d.stopOnEOF {
		go func() { // it lives as long as the process, because a read can't be interrupted
			_, _ = io.Copy(io.Discard, bufio.NewReader(d.app.Stdin)) // only the end matters
			cancel(errInputEnded)
		}()
	}
	err := givingBack(ctx, run)
	// A process that was asked to stop and did so has not failed: service managers look at the exit code.
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

// givingBack runs the work of a process that lives long. It returns memory to the system whenever it is idle, unless
// the user has set GOGC.
func givingBack(ctx context.Context, work func(context.Context) error) error {
	if os.Getenv("GOGC") != "" {
		return work(ctx)
	}
	return heap.GiveBackDuring(ctx, work)
}

// hostPort joins the bind address with a port.
func hostPort(host string, port int) string { return net.JoinHostPort(host, fmt.Sprint(port)) }

// atOnce turns "0s" into the negative time with which configurations say "not at all".
func atOnce(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// programName is how this program was called, for telling people what to type next.
func programName() string {
	if strings.ContainsRune(os.Args[0], os.PathSeparator) {
		return os.Args[0]
	}
	return "tender"
}
