// Package inside runs commands beside the processes of a task, for people who look into it: in the task's sandbox, with
// its environment and as its user, in its control groups and namespaces, under its limits, and with no right that it
// does not have. How a task is isolated is recorded nowhere: the package asks the running process. So code that changes
// how tasks are started need not tell this package.
//
// A command lives as long as its connection, and no longer than its task. It ends with all that it has started in its
// session.
//
// A system call filter of the task can't be read and is not adopted; a task that has one admits no command.
package inside

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/executor/process"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/walls/paths"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/frames"
)

// Session is one command for one client.
type Session struct {
	// Enter is the command line that starts this very program as the helper: a process whose main calls Enter.
	Enter []string
	// Target is a process of the task. Sandbox is the folder in which the command begins.
	Target  core.Process
	Sandbox string
	// Reach, if set, says which files the command may use. The command then can't signal the task, nor look into its
	// processes: the kernel lets nobody join another process's Landlock domain.
	Reach *paths.Reach
	// Over is closed when the task has ended.
	Over <-chan struct{}
	// Note, if set, is called with the command before it runs, and again with how it has ended.
	Note func(command frames.Command, ended *frames.End)
}

// Passed are the signals that a helper passes on to its command.
var Passed = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGCONT,
}

// killPatience is how long to wait for the end of what a command has left.
const killPatience = 10 * time.Second

// Serve runs the command that the client names until the command ends, the client leaves, the task ends, or the context
// ends. The client is told how it ended. from is read until its end: the caller closes it after Serve.
func (s *Session) Serve(ctx context.Context, from io.Reader, to io.Writer) error {
	out := frames.NewWriter(to)
	command, err := readCommand(from)
	end := frames.End{}
	if err == nil {
		s.note(command, nil)
		end, err = s.run(ctx, command, from, out)
	}
	if err != nil {
		end = frames.End{Code: 1, Why: err.Error()}
	}
	s.note(command, &end)
	return errors.Join(err, out.WriteJSON(frames.Ended, end))
}

func (s *Session) note(command frames.Command, ended *frames.End) {
	if s.Note != nil && len(command.Argv) > 0 {
		s.Note(command, ended)
	}
}

func readCommand(from io.Reader) (command frames.Command, err error) {
	kind, content, err := frames.Read(from)
	switch {
	case err != nil:
		return command, err
	case kind != frames.Order:
		return command, errors.New("the first frame is the command")
	}
	if err := json.Unmarshal(content, &command); err != nil {
		return command, fmt.Errorf("the command can't be read: %w", err)
	}
	if len(command.Argv) == 0 || command.Argv[0] == "" {
		return command, errors.New("the command is empty")
	}
	return command, nil
}

func (s *Session) run(ctx context.Context, command frames.Command, from io.Reader, out *frames.Writer) (frames.End, error) {
	entry, err := look(s.Target)
	if err != nil {
		return frames.End{}, err
	}
	entry.prepare(s, command)
	r := &running{out: out, own: make(chan struct{})}
	defer r.closeAll()
	if err := r.start(s.Enter, entry, command); err != nil {
		return frames.End{}, err
	}
	return r.toEnd(ctx, s.Over, from)
}

// running is a command that was started.
type running struct {
	out     *frames.Writer
	helper  *exec.Cmd
	leader  core.Process  // the helper; everything that the command starts is in its session
	stdin   *os.File      // where the client's bytes go; of a terminal also where output comes from
	tty     bool          //
	outputs []output      // the outputs of the command
	report  *os.File      // where the helper reports how the command ended
	files   []*os.File    // all files that have to be closed
	own     chan struct{} // closed when the helper has ended
}

type output struct {
	kind byte
	from *os.File
}

func (r *running) keep(file *os.File) *os.File {
	r.files = append(r.files, file)
	return file
}

func (r *running) closeAll() {
	for _, file := range r.files {
		file.Close() //nolint:errcheck // some are closed already, and all were read to their end
	}
}

func (r *running) pipe() (reads, writes *os.File, err error) {
	reads, writes, err = os.Pipe()
	if err == nil {
		r.keep(reads)
		r.keep(writes)
	}
	return reads, writes, err
}

// start starts the helper, with the Entry as its input and with the command's own files.
func (r *running) start(enter []string, entry *Entry, command frames.Command) error {
	way, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	wayIn, wayOut, err := r.pipe()
	if err != nil {
		return err
	}
	said, says, err := r.pipe()
	if err != nil {
		return err
	}
	r.helper, r.report = exec.Command(enter[0], enter[1:]...), said
	r.helper.Env = []string{} // nothing of the agent's own environment
	r.helper.ExtraFiles = []*os.File{wayIn, says}
	r.helper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	ends, err := r.connect(command, entry)
	if err != nil {
		return err
	}
	if err := r.helper.Start(); err != nil {
		return fmt.Errorf("the command's helper can't be started: %w", err)
	}
	for _, file := range append(ends, wayIn, says) {
		file.Close() //nolint:errcheck // they are the helper's now
	}
	stat, err := proc.Read(r.helper.Process.Pid)
	if err == nil {
		r.leader = core.Process{PID: stat.PID, Start: stat.Start}
	}
	_, failed := wayOut.Write(append(way, '\n')) // it stays open: when it ends, the helper knows that the agent has ended
	return errors.Join(err, failed)
}

// connect makes the files of the command, and returns the ends that belong to the helper.
func (r *running) connect(command frames.Command, entry *Entry) (ends []*os.File, err error) {
	if command.TTY {
		master, slave, err := pty.Open()
		if err != nil {
			return nil, fmt.Errorf("there is no terminal to be had: %w", err)
		}
		r.stdin, r.tty = r.keep(master), true
		r.outputs = []output{{frames.Stdout, master}}
		_ = slave.Chown(entry.UID, entry.GID) // if this fails, the agent already runs as the task's user
		_ = pty.Setsize(master, &pty.Winsize{Rows: command.Rows, Cols: command.Cols})
		r.helper.Stdin, r.helper.Stdout, r.helper.Stderr = slave, slave, slave
		r.helper.SysProcAttr.Setctty = true
		return []*os.File{r.keep(slave)}, nil
	}
	stdin, typed, err := r.pipe()
	if err != nil {
		return nil, err
	}
	stdout, prints, err := r.pipe()
	if err != nil {
		return nil, err
	}
	stderr, complains, err := r.pipe()
	if err != nil {
		return nil, err
	}
	r.stdin, r.outputs = typed, []output{{frames.Stdout, stdout}, {frames.Stderr, stderr}}
	r.helper.Stdin, r.helper.Stdout, r.helper.Stderr = stdin, prints, complains
	return []*os.File{stdin, prints, complains}, nil
}

var (
	errTaskEnded  = errors.New("the task has ended, and the command with it")
	errAgentEnds  = errors.New("the agent goes away")
	errClientGone = errors.New("the client is gone")
)

// toEnd passes bytes on until the command ends, or has to be ended.
func (r *running) toEnd(ctx context.Context, over <-chan struct{}, from io.Reader) (frames.End, error) {
	var passing sync.WaitGroup
	for _, output := range r.outputs {
		passing.Go(func() { _ = r.out.Copy(output.kind, output.from) }) // a terminal without a process ends with an error
	}
	gone := make(chan struct{}, 2)
	go func() { // it ends with from, which its owner closes
		r.obey(from)
		gone <- struct{}{}
	}()
	passing.Go(func() {
		if r.tellAlive() != nil {
			gone <- struct{}{}
		}
	})
	said := make(chan report, 1)
	go func() { // it ends with the helper
		said <- readReport(r.report)
		_ = r.helper.Wait()
		close(r.own)
	}()
	var why error
	select {
	case <-r.own:
	case <-gone:
		why = errClientGone
	case <-over:
		why = errTaskEnded
	case <-ctx.Done():
		why = errAgentEnds
		if shownOut := (*api.Error)(nil); errors.As(context.Cause(ctx), &shownOut) {
			why = shownOut
		}
	}
	if err := r.killSession(); err != nil {
		why = errors.Join(why, err)
	}
	// A process that has left the session may hold an output open; that is not waited for.
	for _, output := range r.outputs {
		_ = output.from.SetReadDeadline(time.Now().Add(time.Second))
	}
	passing.Wait()
	if why != nil {
		return frames.End{}, why
	}
	end := <-said
	if end.Error == endedOutside { // if all processes of the task are killed at once, the command may end before the task
		select {
		case <-over:
			return frames.End{}, errTaskEnded
		case <-time.After(overPatience):
		}
	}
	if end.Error != "" {
		return frames.End{}, errors.New(end.Error)
	}
	return frames.End{Code: end.Code}, nil
}

// tellAlive writes a frame from time to time until the session ends. So a client that has gone away is noticed even
// while its last bytes wait for a program that does not read.
func (r *running) tellAlive() error {
	ticker := time.NewTicker(aliveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := r.out.Write(frames.Stdout, nil); err != nil {
				return err
			}
		case <-r.own:
			return nil
		}
	}
}

// aliveEvery is how often a session does that.
const aliveEvery = 10 * time.Second

// killSession kills everything that is left of the command.
func (r *running) killSession() error {
	ctx, cancel := context.WithTimeout(context.Background(), killPatience)
	defer cancel()
	_, err := new(process.Launcher).KillAll(ctx, executor.Owner{Leader: r.leader})
	select {
	case <-r.own:
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
	return err
}

// obey carries out the client's frames until there are no more. If the program does not read, the client has to wait.
func (r *running) obey(from io.Reader) {
	for {
		kind, content, err := frames.Read(from)
		if err != nil {
			return
		}
		switch {
		case kind == frames.Stdin:
			_, _ = r.stdin.Write(content) // a program that reads no more may still print
		case kind == frames.StdinEnd && r.tty:
			_, _ = r.stdin.Write([]byte{4}) // what a person would type: Ctrl-D
		case kind == frames.StdinEnd:
			r.stdin.Close() //nolint:errcheck // as above
		case kind == frames.Size && r.tty && len(content) == 4:
			_ = pty.Setsize(r.stdin, &pty.Winsize{Rows: binary.BigEndian.Uint16(content), Cols: binary.BigEndian.Uint16(content[2:])})
		case kind == frames.Signal && len(content) == 1:
			_ = r.helper.Process.Signal(syscall.Signal(content[0])) // the helper passes it on
		}
	}
}

// endedOutside is reported for a helper that could report nothing itself.
const endedOutside = "the command was ended from outside"

// overPatience is how long to wait, after a command was killed, for the news that its task has ended.
const overPatience = 5 * time.Second

// reportBytesMax is how much is read of what the helper tells.
const reportBytesMax = 64 << 10

// report is what the helper tells the agent when it ends.
type report struct {
	Code  int    `json:"code"`
	Error string `json:"error,omitempty"`
}

func readReport(from io.Reader) (end report) {
	if err := json.NewDecoder(io.LimitReader(from, reportBytesMax)).Decode(&end); err != nil {
		return report{Error: endedOutside}
	}
	return end
}
