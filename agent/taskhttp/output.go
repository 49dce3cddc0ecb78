package taskhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tenderhq/tender/agent/tail"
	"github.com/tenderhq/tender/agent/visitors"
	"github.com/tenderhq/tender/api"
)

// Logs sends one output as plain bytes, for people.
func (s Server) Logs(w http.ResponseWriter, r *http.Request) {
	stream := r.PathValue("stream")
	file, err := outputAsked(stream, r, "offset", "lines", "since")
	if stream != "stdout" && stream != "stderr" {
		err = errors.New("ask for /v1/logs/FRAMEWORK/TASK/stdout or stderr")
	}
	if err != nil {
		visitors.Answer(w, api.E("agent.logs", api.Invalid, r.URL.Path, err))
		return
	}
	reader, err := s.enterReader(r)
	if err != nil {
		visitors.Answer(w, err)
		return
	}
	defer s.leaveReader(r, reader)
	plain(w)
	out := &flushing{w, http.NewResponseController(w)}
	file.To = out
	s.sendToEnd(r, reader, follows(r), out, []*tail.File{file})
}

// outputAsked reads which part of an output a request asks for, given the names of three parameters: the first byte,
// the number of last lines, and how long ago the output may have been written at most.
func outputAsked(stream string, r *http.Request, offset, lines, since string) (*tail.File, error) {
	file := &tail.File{Name: stream}
	var err error
	if text := r.FormValue(offset); text != "" {
		if file.Offset, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("%s=%s is no offset; write a whole number", offset, text)
		}
	}
	if text := r.FormValue(lines); text != "" {
		if file.Lines, err = strconv.Atoi(text); err != nil || file.Lines < 0 {
			return nil, fmt.Errorf("%s=%s is no number of lines; write 0 or more", lines, text)
		}
	}
	if text := r.FormValue(since); text != "" {
		ago, err := time.ParseDuration(text)
		if err != nil || ago <= 0 {
			return nil, fmt.Errorf("%s=%s is no time; write one such as 90s", since, text)
		}
		file.Since = time.Now().Add(-ago)
	}
	return file, nil
}

// Output sends the outputs that the request names, as frames.
func (s Server) Output(w http.ResponseWriter, r *http.Request) {
	out := &flushing{w, http.NewResponseController(w)}
	var files []*tail.File
	for stream, kind := range map[string]byte{"stdout": tail.FrameStdout, "stderr": tail.FrameStderr} {
		if r.FormValue(stream) != "" {
			file, err := outputAsked(stream, r, stream, stream+".lines", stream+".since")
			if err != nil {
				visitors.Answer(w, api.E("agent.output", api.Invalid, r.URL.Path, err))
				return
			}
			file.To = tail.Frames{To: out, Kind: kind}
			files = append(files, file)
		}
	}
	reader, err := s.enterReader(r)
	if err != nil {
		visitors.Answer(w, err)
		return
	}
	defer s.leaveReader(r, reader)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if s.sendToEnd(r, reader, follows(r), out, files) {
		_ = tail.WriteEnd(out) // a client that went away asks again
	}
}

func follows(r *http.Request) bool { return asks(r, "follow") }

// sendToEnd writes what the files hold, and with follow also what is added until the task's end. It returns true if
// that was everything.
func (s Server) sendToEnd(r *http.Request, from *reader, follow bool, out *flushing, files []*tail.File) bool {
	err := s.sendFiles(r.Context(), from, follow, out, files)
	if err != nil && r.Context().Err() == nil {
		s.Log.Warn().Err(err).Str("path", r.URL.Path).Msg("the output of a task was not sent completely")
	}
	return err == nil && (!follow || from.ended)
}

func (s Server) sendFiles(ctx context.Context, from *reader, follow bool, out *flushing, files []*tail.File) error {
	select {
	case <-from.over:
		follow = false
	default:
	}
	if !follow {
		return tail.Copy(from.folder, files)
	}
	// If the task is about to get its folder, the folder is made now, so that it can be watched.
	root, err := from.folder.Ensure()
	if err != nil {
		return err
	}
	if err := root.Close(); err != nil {
		return err
	}
	out.Flush() // so that the client knows that it is connected
	return s.Readers.followed.Follow(ctx, from.folder, files, from.over)
}

func plain(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// flushing is a writer with a Flush that sends what was written at once.
type flushing struct {
	io.Writer
	controller *http.ResponseController
}

func (f *flushing) Flush() { f.controller.Flush() } //nolint:errcheck // the next write says it
