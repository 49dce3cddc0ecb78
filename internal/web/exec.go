package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/a-h/templ"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/frames"
	"github.com/tenderhq/tender/internal/sandbox"
	"github.com/tenderhq/tender/internal/words"
)

const (
	// commandsMax and ownCommandsMax bound the commands inside tasks that a page serves, in all and for one person. One more
	// is refused (Limit); agents have a bound of their own.
	commandsMax    = 32
	ownCommandsMax = 8
	// commandWait is how long a command that was asked for waits for the script that shows it. Then it is forgotten.
	commandWait = 30 * time.Second
	// keysBytesMax bounds what is typed, or pasted, at once.
	keysBytesMax = 32 << 10
	// sideMax bounds the rows and the columns of a terminal.
	sideMax = 500
)

// commands are the commands inside tasks that people have asked for and that have not ended.
type commands struct {
	mu sync.Mutex
	by map[string]*insider // guarded by mu; by an ID that nobody guesses
}

// insider is one command inside a task, with a terminal on the page (R86).
type insider struct {
	viewer string // nobody else reaches it
	file   sandbox.File
	argv   []string
	idle   *time.Timer // ends it, unless it begins
	typing sync.Mutex  // held while something is typed

	mu    sync.Mutex
	begun bool           // guarded by mu, as to
	to    *frames.Writer // nil: there is no connection yet
}

// execAction asks for a command inside a task. The command itself begins when the page that shows it is there.
var execAction = action{
	name: "exec", title: "Run a command inside", danger: true, shows: terminalView,
	fields: []input{{"command", "Command", "such as sh, or ps aux", ""}},
	hits: func(ctx context.Context, s *Server, form url.Values) ([]string, *apiv1.PrincipalGrant, error) {
		task, err := s.taskOf(ctx, form.Get("framework"), form.Get("task"))
		if err != nil {
			return nil, nil, err
		}
		return []string{
			fmt.Sprintf("It runs beside task %s of %s on %s: in its folder, as its user, and with what it may use.", task.GetId(),
				cmp.Or(task.GetFrameworkName(), task.GetFrameworkId()), cmp.Or(task.GetHostname(), "no agent")),
			"You see it in a terminal on this page. It ends, with what it has started, when you leave the page.",
		}, &apiv1.PrincipalGrant{Verb: "exec", Role: task.GetRole(), Framework: task.GetFrameworkId()}, nil
	},
	fill: func(_ context.Context, _ *Server, form url.Values) {
		form.Set("command", cmp.Or(form.Get("command"), "sh"))
	},
	command: func(form url.Values) string {
		line := "tender exec -it " + words.Quote(form.Get("framework")+"/"+form.Get("task")) + " --"
		for _, word := range argvOf(form.Get("command")) {
			line += " " + words.Quote(word)
		}
		return line
	},
	do: func(ctx context.Context, s *Server, form url.Values) (string, error) {
		task, err := s.taskOf(ctx, form.Get("framework"), form.Get("task"))
		if err != nil {
			return "", err
		}
		file, err := s.fileBy(ctx, task, "", s.operator.GetExecTicket)
		if err != nil {
			return "", err
		}
		return s.commands.add(&insider{viewer: viewerOf(ctx).Name, file: file, argv: argvOf(form.Get("command"))})
	},
	back: func(form url.Values) string {
		return "/tasks/" + url.PathEscape(form.Get("framework")) + "/" + url.PathEscape(form.Get("task"))
	},
}

// argvOf returns the words of a command line, or has a shell read it if there is more in it than words.
func argvOf(line string) []string {
	if strings.ContainsAny(line, "\"'`\\$&|;<>()*?[]{}#~=%!\n") {
		return []string{"sh", "-c", line}
	}
	if argv := strings.Fields(line); len(argv) > 0 {
		return argv
	}
	return []string{"sh"}
}

// add notes a command that was asked for, and returns its ID.
func (c *commands) add(one *insider) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := 0
	for _, other := range c.by { // order: irrelevant because they are counted
		if other.viewer == one.viewer {
			own++
		}
	}
	if len(c.by) >= commandsMax || own >= ownCommandsMax {
		return "", api.E("page.exec", api.Limit, "",
			fmt.Errorf("%d commands run inside tasks by this page, %d of them yours; more than %d, or %d of one person, may not", len(c.by), own, commandsMax, ownCommandsMax))
	}
	if c.by == nil {
		c.by = map[string]*insider{}
	}
	id := rand.Text()
	c.by[id] = one
	one.idle = time.AfterFunc(commandWait, func() {
		if one.begin() {
			c.remove(id)
		}
	})
	return id, nil
}

func (c *commands) remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.by, id)
}

// of returns the command that a request is about, if it is the requester's own.
func (c *commands) of(r *http.Request) *insider {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.by[r.PathValue("id")]; one != nil && one.viewer == viewerOf(r.Context()).Name {
		return one
	}
	return nil
}

// begin reports whether nobody has begun it before.
func (i *insider) begin() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	first := !i.begun
	i.begun = true
	return first
}

// command begins a command and sends what it writes, until it ends or the page is left: it lives as long as the answer.
func (s *Server) command(w http.ResponseWriter, r *http.Request) {
	one := s.commands.of(r)
	if one == nil || !one.begin() {
		http.Error(w, "there is no such command to begin here; ask for it anew", http.StatusNotFound)
		return
	}
	one.idle.Stop()
	defer s.commands.remove(r.PathValue("id"))
	rows, cols, err := sizeOf(r.URL.Query())
	if err != nil {
		http.Error(w, sentenceOf(err), http.StatusBadRequest)
		return
	}
	ctx, done := s.lasting(w, r)
	defer done()
	conn, err := s.enter(ctx, one)
	if err != nil {
		http.Error(w, sentenceOf(err), failed(err).code)
		return
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }() // the command ends with it
	w.Header().Set("Content-Type", "application/octet-stream")
	to := &flowing{w: w, control: http.NewResponseController(w)}
	out := frames.NewWriter(conn)
	if err := out.WriteJSON(frames.Order, frames.Command{Argv: one.argv, TTY: true, Rows: rows, Cols: cols, Term: "xterm-256color"}); err != nil {
		http.Error(w, "the agent broke off: "+err.Error(), http.StatusBadGateway)
		return
	}
	one.mu.Lock()
	one.to = out
	one.mu.Unlock()
	_, _ = to.Write([]byte("\r\n[" + relay(conn, to) + "]\r\n"))
}

// enter opens the connection to the agent.
func (s *Server) enter(ctx context.Context, one *insider) (io.ReadWriteCloser, error) {
	if one.file.Address == "" {
		return nil, api.E("page.exec", api.Unsupported, one.file.Task.String(), sandbox.ErrNoAddress)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return one.file.Dial(ctx, address) }}
	if one.file.Dial == nil {
		transport.DialContext = nil
	}
	return frames.Dial(ctx, &http.Client{Transport: transport}, one.file.Address, one.file.Task, one.file.Ticket)
}

// relay passes on what a command writes, and says how it has ended.
func relay(from io.Reader, to io.Writer) string {
	for {
		kind, content, err := frames.Read(from)
		if err != nil {
			return "the connection to the agent has ended, and the command with it"
		}
		switch kind {
		case frames.Stdout, frames.Stderr: // an empty one is a sign that the agent lives
			if _, err = to.Write(content); err != nil {
				return "nobody reads any more"
			}
		case frames.Ended:
			var end frames.End
			if err := json.Unmarshal(content, &end); err != nil {
				return "the agent says something about its end that is not understood: " + err.Error()
			}
			if end.Why != "" {
				return end.Why
			}
			return fmt.Sprintf("it has ended with exit code %d", end.Code)
		}
	}
}

// keys passes on what was typed, and the size of the terminal.
func (s *Server) keys(w http.ResponseWriter, r *http.Request) {
	one := s.commands.of(r)
	if one == nil {
		http.Error(w, "the command has ended", http.StatusNotFound)
		return
	}
	if !one.typing.TryLock() {
		http.Error(w, "what was typed before is still on its way", http.StatusTooManyRequests)
		return
	}
	defer one.typing.Unlock()
	one.mu.Lock()
	to := one.to
	one.mu.Unlock()
	typed, err := io.ReadAll(http.MaxBytesReader(w, r.Body, keysBytesMax))
	switch {
	case to == nil:
		http.Error(w, "the command has not begun yet", http.StatusConflict)
		return
	case err != nil:
		http.Error(w, "that is too much at once", http.StatusRequestEntityTooLarge)
		return
	}
	if r.URL.RawQuery != "" {
		var rows, cols uint16
		if rows, cols, err = sizeOf(r.URL.Query()); err != nil {
			http.Error(w, sentenceOf(err), http.StatusBadRequest)
			return
		}
		err = to.WriteSize(rows, cols)
	}
	if err == nil && len(typed) > 0 {
		err = to.Write(frames.Stdin, typed)
	}
	if err != nil {
		http.Error(w, "the agent broke off: "+err.Error(), http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// sizeOf reads the size of a terminal.
func sizeOf(query url.Values) (rows, cols uint16, err error) {
	for name, into := range map[string]*uint16{"rows": &rows, "cols": &cols} { // order: irrelevant because each is set once
		n, wrong := strconv.ParseUint(query.Get(name), 10, 16)
		if wrong != nil || n == 0 || n > sideMax {
			err = api.E("page.exec", api.Invalid, "", errors.New(name+" is a number from 1 to "+strconv.Itoa(sideMax)))
		}
		*into = uint16(n)
	}
	return rows, cols, err
}

// terminalView is where the script shows the command with this ID.
func terminalView(id, back string) templ.Component {
	return terminalPane("/exec/"+id, back, strings.TrimPrefix(back, "/tasks/"))
}
