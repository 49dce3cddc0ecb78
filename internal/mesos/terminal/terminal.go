// Package terminal is how a task of Mesos that asks for a terminal has one to which clients can attach: the task's first
// process is Hold, which runs the command in a terminal and answers on a socket in the sandbox, and each client is
// Attach, which people's commands inside the task run. Whoever can't run a command in the task can't attach to it.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/tenderhq/tender/internal/frames"
	"github.com/tenderhq/tender/internal/pause"
)

const (
	// socket is where Hold answers, in the sandbox. Its name is relative because the path of a socket must be short.
	socket = ".terminal"
	// backlogBytesMax is how much of the latest output a client is sent that attaches later.
	backlogBytesMax = 64 << 10
	// sendTimeout ends the connection of a client that does not read.
	sendTimeout = time.Second
	// attachPatience is how long a client waits for a task that has just begun.
	attachPatience = 5 * time.Second
)

// holder is a command that runs in a terminal.
type holder struct {
	terminal *os.File
	copy     io.Writer // takes all output, too

	mu      sync.Mutex
	backlog []byte
	clients map[net.Conn]bool
}

// Hold runs a command in a terminal until it ends, and returns its exit code, or 128 + the signal that ended it. Signals
// that it is sent are the command's. All output also goes to out.
func Hold(argv []string, signals <-chan os.Signal, out io.Writer) (int, error) {
	_ = os.Remove(socket) // of a former start of the same task
	listener, err := new(net.ListenConfig).Listen(context.Background(), "unix", socket)
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	command := exec.Command(argv[0], argv[1:]...)
	terminal, err := pty.StartWithSize(command, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		return 0, err
	}
	defer terminal.Close()
	h := &holder{terminal: terminal, copy: out, clients: make(map[net.Conn]bool)}
	go h.accept(listener) // until the listener is closed
	over := make(chan struct{})
	defer close(over)
	go func() { // until the command has ended
		for {
			select {
			case signal := <-signals:
				if number, is := signal.(syscall.Signal); is {
					_ = syscall.Kill(-command.Process.Pid, number) // it leads a session of its own
				}
			case <-over:
				return
			}
		}
	}()
	h.pass()
	err = command.Wait()
	h.end()
	exited := (*exec.ExitError)(nil)
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &exited):
		return 0, err
	}
	if status, is := exited.Sys().(syscall.WaitStatus); is && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exited.ExitCode(), nil
}

// pass passes the terminal's output on until nobody can write to it any more.
func (h *holder) pass() {
	chunk := make([]byte, 32<<10)
	for {
		n, err := h.terminal.Read(chunk)
		if n > 0 {
			_, _ = h.copy.Write(chunk[:n]) // a full disk does not end the command
			h.tell(chunk[:n])
		}
		if err != nil { // Linux says EIO at the end
			return
		}
	}
}

// tell sends output to all clients.
func (h *holder) tell(output []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.backlog = append(h.backlog, output...)
	if over := len(h.backlog) - backlogBytesMax; over > 0 {
		h.backlog = append(h.backlog[:0:0], h.backlog[over:]...)
	}
	for client := range h.clients { // order: each by itself
		h.send(client, output)
	}
}

// send sends output to a client, or ends its connection. The caller holds mu.
func (h *holder) send(client net.Conn, output []byte) {
	_ = client.SetWriteDeadline(time.Now().Add(sendTimeout)) // if it can't be set, the write says so
	if _, err := client.Write(output); err != nil {
		delete(h.clients, client)
		_ = client.Close() // it does not read
	}
}

// end ends all connections.
func (h *holder) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for client := range h.clients { // order: each by itself
		_ = client.Close() // everything was sent
	}
}

// accept serves clients.
func (h *holder) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		h.mu.Lock()
		h.clients[client] = true
		h.send(client, h.backlog)
		h.mu.Unlock()
		go h.read(client) // until the connection ends
	}
}

// read passes on what a client types, and the size of its terminal, until it leaves.
func (h *holder) read(client net.Conn) {
	for {
		kind, content, err := frames.Read(client)
		switch {
		case err != nil:
			h.mu.Lock()
			defer h.mu.Unlock()
			delete(h.clients, client)
			_ = client.Close() // it has left
			return
		case kind == frames.Stdin:
			if _, err := h.terminal.Write(content); err != nil {
				return
			}
		case kind == frames.Size && len(content) == 4:
			size := pty.Winsize{Rows: uint16(content[0])<<8 | uint16(content[1]), Cols: uint16(content[2])<<8 | uint16(content[3])}
			_ = pty.Setsize(h.terminal, &size) // the command has ended
		}
	}
}

// Attach connects to the terminal of the task in whose sandbox it runs: what it reads are frames of package inside,
// which it passes on, and what the terminal says it writes, until the command ends. With out nil it only passes on.
func Attach(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, attachPatience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	for err != nil && pause.For(ctx, 50*time.Millisecond) {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	if err != nil {
		return fmt.Errorf("the task has no terminal, or has ended: %w", err)
	}
	defer conn.Close()
	if out == nil { // the other side loses what it has not read yet if this one leaves without having read all
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			_, _ = io.Copy(io.Discard, conn)
		}()
		_, err = io.Copy(conn, in)
		if half, is := conn.(*net.UnixConn); is {
			err = errors.Join(err, half.CloseWrite())
		}
		<-drained
		return err
	}
	go func() { _, _ = io.Copy(conn, in) }() // until this process ends
	_, err = io.Copy(out, conn)
	return err
}
