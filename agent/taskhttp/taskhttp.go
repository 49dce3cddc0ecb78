// Package taskhttp serves over HTTP what the tasks of one agent have written, and lets people run commands inside them.
// It checks no rights: package visitors decides before who may come in.
package taskhttp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strconv"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/files"
	"github.com/tenderhq/tender/agent/inside"
	"github.com/tenderhq/tender/agent/secrets"
	"github.com/tenderhq/tender/agent/tail"
	"github.com/tenderhq/tender/agent/visitors"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/frames"
)

// Server serves what the tasks of one agent have written, and lets people run commands inside them. All fields except
// Cells are required.
type Server struct {
	Ask      func(ctx context.Context, look func(*core.Core)) bool // calls look; false: the agent is stopping
	Readers  *Readers
	Visitors *visitors.Visitors
	Below    *beneath.Folder              // everything in the folders of tasks is opened through it
	Own      func(core.TaskView) []string // returns the folders of one task
	Exec     *inside.Sessions
	Cells    *walls.Cells
	Log      zerolog.Logger
}

// enterReader finds the folder of the task that the request names, and registers a reader for it.
func (s Server) enterReader(r *http.Request) (*reader, error) {
	reader := &reader{
		task: api.TaskRef{Framework: api.FrameworkID(r.PathValue("framework")), Task: api.TaskID(r.PathValue("task"))},
		over: make(chan struct{}),
	}
	known := false
	alive := s.Ask(r.Context(), func(c *core.Core) {
		var view core.TaskView
		if view, known = c.Task(reader.task); !known {
			return
		}
		reader.view = view
		reader.folder = s.Below.At(view.Sandbox)
		if asks(r, "executor") {
			reader.folder = s.Below.At(view.ExecutorSandbox)
		}
		if reader.ended = view.Ended; view.Ended {
			close(reader.over)
			return
		}
		s.Readers.add(reader)
	})
	switch {
	case !alive:
		return nil, api.E("agent.logs", api.Unavailable, reader.task.String(), errors.New("the agent is stopping"))
	case !known:
		return nil, api.E("agent.logs", api.NotFound, reader.task.String(),
			errors.New("this agent has no such task, or its sandbox was deleted since it ended"))
	}
	return reader, nil
}

// leaveReader forgets a reader that has gone away before its task's end.
func (s Server) leaveReader(r *http.Request, left *reader) {
	select {
	case <-left.over:
		return // it was forgotten already
	default:
	}
	s.Ask(context.WithoutCancel(r.Context()), func(*core.Core) { s.Readers.remove(left) })
}

// Files lists a folder of a sandbox, or sends a file of it. Links can't lead out of the sandbox.
func (s Server) Files(w http.ResponseWriter, r *http.Request) {
	reader, err := s.enterReader(r)
	if err != nil {
		visitors.Answer(w, err)
		return
	}
	defer s.leaveReader(r, reader)
	name := path.Clean(defaulted(r.PathValue("path"), "."))
	file, err := reader.folder.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a pipe would block
	if err == nil {
		defer file.Close()
	}
	switch info, err := statOf(file, err); {
	case err == nil && secrets.Holds(file):
		visitors.Answer(w, api.E("agent.files", api.Denied, name, errors.New("it is a secret, which only its task is shown")))
	case errors.Is(err, fs.ErrNotExist):
		visitors.Answer(w, api.E("agent.files", api.NotFound, name, fmt.Errorf("%s has no such file in its folder; it has not written it, or has removed it", reader.task)))
	case err != nil:
		visitors.Answer(w, refusal(name, err))
	case info.IsDir():
		s.listFolder(w, r, file)
	case info.Mode().IsRegular():
		s.sendFile(w, r, reader.folder, file, info)
	default:
		visitors.Answer(w, api.E("agent.files", api.Invalid, name, errors.New("neither a file nor a folder")))
	}
}

// sendFile sends a file, or the range of it that is asked for. A hole of an output is what upkeep has given back to the
// disk, and no zeros that the task has written: it is left out, and a range that begins in it is refused.
func (s Server) sendFile(w http.ResponseWriter, r *http.Request, folder tail.Folder, file *os.File, info fs.FileInfo) {
	w.Header().Set("Content-Type", "application/octet-stream") // so that a browser does not show it as one of our pages
	w.Header().Set("X-Content-Type-Options", "nosniff")
	name, span, size := path.Clean(r.PathValue("path")), r.Header.Get("Range"), info.Size()
	if name != "stdout" && name != "stderr" {
		http.ServeContent(w, r, "", info.ModTime(), file)
		return
	}
	if span == "" {
		if err := tail.CopyFile(folder, &tail.File{Name: name, To: w}); err != nil {
			s.Log.Warn().Err(err).Str("path", r.URL.Path).Msg("a file of a task was not sent completely")
			panic(http.ErrAbortHandler) // so that nobody takes a part for the whole file
		}
		return
	}
	var begin int64
	if _, _ = fmt.Sscanf(span, "bytes=%d", &begin); begin < 0 { // what is no range is refused below
		begin = max(size+begin, 0)
	}
	if content, err := tail.ContentFrom(file, begin, size); err == nil && content > begin && begin < size {
		visitors.Answer(w, api.E("agent.files", api.Invalid, name, fmt.Errorf("what is kept of it begins at %d", content)))
		return
	}
	http.ServeContent(w, r, "", info.ModTime(), file)
}

// refusal says why a file of a task can't be opened. What the task has put there is no fault of the agent.
func refusal(name string, err error) error {
	const op = "agent.files"
	var path *fs.PathError
	var number syscall.Errno
	switch {
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		return api.E(op, api.NotFound, name, errors.New("there can be no such file: a part of its path is no folder, or is too long"))
	case errors.Is(err, syscall.ELOOP), errors.As(err, &path) && !errors.As(err, &number): // it leads out of the folder
		return api.E(op, api.Denied, name, errors.New("it is a link out of the task's folder, or lies behind one; such links are not followed"))
	case errors.Is(err, fs.ErrPermission):
		return api.E(op, api.Denied, name, errors.New("the agent may not read it"))
	}
	return err
}

// Command runs a command inside a task.
func (s Server) Command(w http.ResponseWriter, r *http.Request) {
	if err := inside.Check(r); err != nil {
		visitors.Answer(w, err)
		return
	}
	reader, err := s.enterReader(r)
	if err != nil {
		visitors.Answer(w, err)
		return
	}
	defer s.leaveReader(r, reader)
	if reader.view.Process.PID == 0 {
		visitors.Answer(w, api.E("agent.exec", api.NotFound, reader.task.String(), errors.New("the task does not run; only beside one that does can a command be run")))
		return
	}
	note := func(command frames.Command, ended *frames.End) {
		s.Visitors.NoteCommand(r, visitors.Command{Task: reader.task, Argv: command.Argv}, ended)
	}
	session := inside.Session{
		Target: reader.view.Process, Sandbox: reader.view.Sandbox, Reach: s.Cells.Reach(s.Own(reader.view)...), Over: reader.over, Note: note,
	}
	if err := s.Exec.Serve(w, r, session); err != nil {
		visitors.Answer(w, err)
	}
}

func statOf(file *os.File, err error) (fs.FileInfo, error) {
	if err != nil {
		return nil, err
	}
	return file.Stat()
}

// listFolder answers with one page of a folder.
func (s Server) listFolder(w http.ResponseWriter, r *http.Request, folder *os.File) {
	limit, err := strconv.Atoi(defaulted(r.FormValue("limit"), "0"))
	if err != nil || limit < 0 {
		visitors.Answer(w, api.E("agent.files", api.Invalid, r.URL.Path, fmt.Errorf("limit=%s is no number of entries; write 0 or more", r.FormValue("limit"))))
		return
	}
	page, err := files.List(folder, r.FormValue("page_token"), limit)
	if err != nil {
		visitors.Answer(w, err)
		return
	}
	visitors.AnswerJSON(w, page)
}

// asks says whether the request sets this switch.
func asks(r *http.Request, name string) bool {
	value := r.FormValue(name)
	return value != "" && value != "0" && value != "false"
}

func defaulted(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
