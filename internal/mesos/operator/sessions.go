package operator

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/frames"
	"github.com/tenderhq/tender/internal/mesos/codec"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	agentv1 "github.com/tenderhq/tender/internal/mesos/v1/agent"
)

// sessionsMax bounds the commands that tools run inside tasks through a gateway, and those of which it remembers how
// they have ended. The oldest that has ended is forgotten; while all run, one more is refused (503).
const sessionsMax = 256

// session is a command that a tool runs inside a task: a container that is nested in the task's. It ends with the
// connection on which it was launched, or else with the gateway.
type session struct {
	key   string
	proof [sha256.Size]byte // of who has launched it, and nobody else may do anything to it
	conn  io.Closer         // with the agent; nil: not yet
	input *frames.Writer    // of the command
	done  chan struct{}     // closed when it has ended
	end   frames.End        // how, before done is closed
}

// keyOf names a container with those that it is nested in.
func keyOf(id *mesosv1.ContainerID) string {
	if id.GetParent() == nil {
		return id.GetValue()
	}
	return keyOf(id.GetParent()) + "." + id.GetValue()
}

func proofOf(r *http.Request) [sha256.Size]byte {
	return sha256.Sum256([]byte(r.Header.Get("Authorization")))
}

// launchSession runs a command inside the task of the container's parent, and streams what it writes.
func (o *Operator) launchSession(r request, call *agentv1.Call_LaunchNestedContainerSession, encoding codec.Encoding) error {
	id := call.GetContainerId()
	if err := checkNested(id, "launch_nested_container_session"); err != nil {
		return err
	}
	command := frames.Command{Argv: argvOf(call.GetCommand())}
	if terminal := call.GetContainer().GetTtyInfo(); terminal != nil {
		command.TTY, command.Term = true, "xterm"
		command.Rows, command.Cols = uint16(terminal.GetWindowSize().GetRows()), uint16(terminal.GetWindowSize().GetColumns())
	}
	s, conn, err := o.beginSession(r.r.Context(), r, id, command)
	if err != nil {
		return err
	}
	defer close(s.done)
	defer conn.Close()
	s.end, err = o.stream(r, conn, encoding)
	return err
}

// checkNested refuses a container that is not nested in that of a task. field is where the call names it.
func checkNested(id *mesosv1.ContainerID, field string) error {
	switch {
	case id.GetParent() == nil:
		return codec.Refuse(http.StatusBadRequest, "Failed to validate agent::Call: Expecting '%s.container_id.parent' to be present", field)
	case id.GetParent().GetParent() != nil:
		return codec.Refuse(http.StatusNotImplemented, "a container within a nested one has no equivalent in Tender")
	}
	if err := api.CheckID("a container", id.GetValue()); err != nil {
		return codec.Refuse(http.StatusBadRequest, "Failed to validate agent::Call: '%s.container_id' is invalid: %v", field, err)
	}
	return nil
}

// beginSession runs a command inside the task of the container's parent. The caller closes done when it has ended.
func (o *Operator) beginSession(ctx context.Context, r request, id *mesosv1.ContainerID, command frames.Command) (*session, io.ReadWriteCloser, error) {
	s := &session{key: keyOf(id), proof: proofOf(r.r), done: make(chan struct{})}
	if err := o.addSession(s); err != nil {
		return nil, nil, err
	}
	conn, err := o.join(ctx, r, id.GetParent(), command)
	if err != nil {
		close(s.done)
		o.forgetSession(s)
		return nil, nil, err
	}
	o.mu.Lock()
	s.conn, s.input = conn, frames.NewWriter(conn)
	o.mu.Unlock()
	return s, conn, nil
}

// inFolder runs a command in a folder of its own below the task's, as a nested container of Mesos has one. What the
// command says is in two files there.
const inFolder = `mkdir -p "$0" && cd "$0" && exec "$@" >stdout 2>stderr </dev/null`

// launchNested runs a command inside the task of the container's parent, and does not wait for its end.
func (o *Operator) launchNested(r request, id *mesosv1.ContainerID, field string, command *mesosv1.CommandInfo, container *mesosv1.ContainerInfo) error {
	if err := checkNested(id, field); err != nil {
		return err
	}
	if container.GetMesos().GetImage() != nil || container.GetTtyInfo() != nil || len(container.GetVolumes()) > 0 {
		return codec.Refuse(http.StatusNotImplemented, "a nested container runs as the task does: an image, a terminal or volumes of its own have no equivalent in Tender")
	}
	if len(command.GetUris()) > 0 || command.GetUser() != "" {
		return codec.Refuse(http.StatusNotImplemented, "URIs or a user of a nested container have no equivalent in Tender")
	}
	argv := append([]string{"/bin/sh", "-c", inFolder, "containers/" + id.GetValue()}, argvOf(command)...)
	s, conn, err := o.beginSession(context.WithoutCancel(r.r.Context()), r, id, frames.Command{Argv: argv})
	if err != nil {
		return err
	}
	o.nested.Go(func() {
		defer close(s.done)
		defer conn.Close()
		s.end = frames.End{Code: 128 + int(syscall.SIGKILL), Why: "the connection is gone"}
		for {
			kind, content, err := frames.Read(conn)
			if err != nil {
				return
			}
			if kind == frames.Ended {
				_ = json.Unmarshal(content, &s.end) // an agent writes it
				return
			}
		}
	})
	return nil
}

// argvOf returns a command's words. Its environment is the task's, and its own.
func argvOf(command *mesosv1.CommandInfo) []string {
	argv := []string{"/bin/sh", "-c", command.GetValue()}
	if !command.GetShell() {
		argv = []string{command.GetValue()}
		if arguments := command.GetArguments(); len(arguments) > 0 { // the first one is the program's own name
			argv = append(argv, arguments[1:]...)
		}
	}
	if variables := command.GetEnvironment().GetVariables(); len(variables) > 0 {
		env := []string{"/usr/bin/env"}
		for _, variable := range variables {
			env = append(env, variable.GetName()+"="+variable.GetValue())
		}
		argv = append(env, argv...)
	}
	return argv
}

func (o *Operator) addSession(s *session) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if slices.ContainsFunc(o.sessions, func(other *session) bool { return other.key == s.key && !other.over() }) {
		return codec.Refuse(http.StatusAccepted, "the container runs already")
	}
	o.sessions = slices.DeleteFunc(o.sessions, func(other *session) bool { return other.key == s.key })
	if len(o.sessions) >= sessionsMax {
		at := slices.IndexFunc(o.sessions, (*session).over)
		if at < 0 {
			return codec.Refuse(http.StatusServiceUnavailable, "%d commands are run inside tasks here, which is the most", sessionsMax)
		}
		o.sessions = slices.Delete(o.sessions, at, at+1)
	}
	o.sessions = append(o.sessions, s)
	return nil
}

func (s *session) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// sessionOf returns the session of a container that the caller has launched, and where its input goes; nil: nowhere yet.
func (o *Operator) sessionOf(r request, id *mesosv1.ContainerID) (*session, *frames.Writer, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := slices.IndexFunc(o.sessions, func(s *session) bool { return s.key == keyOf(id) && s.proof == proofOf(r.r) })
	if at < 0 {
		return nil, nil, codec.Refuse(http.StatusNotFound, "Container '%s' cannot be found (or is killed)", keyOf(id))
	}
	return o.sessions[at], o.sessions[at].input, nil
}

// waitSession returns the wait status of a command that a caller has launched, when it has ended.
func (o *Operator) waitSession(r request, id *mesosv1.ContainerID) (status *int32, err error) {
	s, _, err := o.sessionOf(r, id)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.done:
	case <-r.r.Context().Done():
		return nil, r.r.Context().Err()
	}
	if s.end.Code > 128 {
		return proto.Int32(int32(s.end.Code - 128)), nil
	}
	return proto.Int32(int32(s.end.Code) << 8), nil
}

// killSession sends a signal to a command that a caller has launched; SIGKILL if it names none.
func (o *Operator) killSession(r request, id *mesosv1.ContainerID, signal int32) error {
	s, input, err := o.sessionOf(r, id)
	if err != nil {
		return err
	}
	if signal <= 0 || signal > 64 {
		signal = int32(syscall.SIGKILL)
	}
	switch {
	case input == nil || s.over():
		return nil
	case signal == int32(syscall.SIGKILL): // it ends with its connection, with all that it has started
		return s.conn.Close()
	}
	return input.Write(frames.Signal, []byte{byte(signal)})
}

// removeSession forgets how a command has ended that a caller has launched.
func (o *Operator) removeSession(r request, id *mesosv1.ContainerID) error {
	s, _, err := o.sessionOf(r, id)
	switch {
	case err != nil:
		return err
	case !s.over():
		return codec.Refuse(http.StatusInternalServerError, "Nested container has not terminated yet")
	}
	o.forgetSession(s)
	return nil
}

func (o *Operator) forgetSession(s *session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sessions = slices.DeleteFunc(o.sessions, func(other *session) bool { return other == s })
}

// answerNested answers a call about a nested container, or about any; false: it is none of these.
func (o *Operator) answerNested(r request, call *agentv1.Call, response *agentv1.Response) (is bool, err error) {
	switch call.GetType() {
	case agentv1.Call_LAUNCH_NESTED_CONTAINER:
		launch := call.GetLaunchNestedContainer()
		return true, o.launchNested(r, launch.GetContainerId(), "launch_nested_container", launch.GetCommand(), launch.GetContainer())
	case agentv1.Call_LAUNCH_CONTAINER:
		launch := call.GetLaunchContainer()
		if launch.GetContainerId().GetParent() == nil {
			return true, codec.Refuse(http.StatusNotImplemented, "a container that stands alone has no equivalent in Tender: launch a task")
		}
		return true, o.launchNested(r, launch.GetContainerId(), "launch_container", launch.GetCommand(), launch.GetContainer())
	case agentv1.Call_WAIT_NESTED_CONTAINER:
		status, err := o.waitSession(r, call.GetWaitNestedContainer().GetContainerId())
		response.WaitNestedContainer = &agentv1.Response_WaitNestedContainer{ExitStatus: status}
		return true, err
	case agentv1.Call_WAIT_CONTAINER:
		status, err := o.waitSession(r, call.GetWaitContainer().GetContainerId())
		response.WaitContainer = &agentv1.Response_WaitContainer{ExitStatus: status}
		return true, err
	case agentv1.Call_KILL_NESTED_CONTAINER:
		return true, o.killSession(r, call.GetKillNestedContainer().GetContainerId(), call.GetKillNestedContainer().GetSignal())
	case agentv1.Call_KILL_CONTAINER:
		return true, o.killSession(r, call.GetKillContainer().GetContainerId(), call.GetKillContainer().GetSignal())
	case agentv1.Call_REMOVE_NESTED_CONTAINER:
		return true, o.removeSession(r, call.GetRemoveNestedContainer().GetContainerId())
	case agentv1.Call_REMOVE_CONTAINER:
		return true, o.removeSession(r, call.GetRemoveContainer().GetContainerId())
	}
	return false, nil
}

// stream answers with what a command inside a task writes, until it ends, and returns how.
func (o *Operator) stream(r request, conn io.ReadWriteCloser, encoding codec.Encoding) (end frames.End, err error) {
	defer context.AfterFunc(r.r.Context(), func() { _ = conn.Close() })() // the client has gone
	end = frames.End{Code: 128 + int(syscall.SIGKILL), Why: "the connection is gone"}
	r.w.Header().Set("Content-Type", encoding.ContentType())
	if codec.Accepts(r.r.Header, codec.RecordIO) && slices.ContainsFunc(r.r.Header.Values("Accept"), func(v string) bool { return strings.Contains(v, codec.RecordIO) }) {
		if wanted, ok := codec.AnswerMessageEncoding(r.r.Header); ok {
			encoding = wanted
		}
		r.w.Header().Set("Content-Type", codec.RecordIO)
		r.w.Header().Set("Message-Content-Type", encoding.ContentType())
	}
	r.w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(r.w)
	if out.Flush() != nil {
		return end, nil // it has gone
	}
	for {
		kind, content, err := frames.Read(conn)
		switch {
		case err != nil:
			return end, nil // the answer has begun, and ends so
		case kind == frames.Ended:
			_ = json.Unmarshal(content, &end) // an agent writes it
			return end, nil
		}
		stream := agentv1.ProcessIO_Data_STDOUT
		if kind == frames.Stderr {
			stream = agentv1.ProcessIO_Data_STDERR
		}
		record, err := encoding.Marshal(&agentv1.ProcessIO{Type: agentv1.ProcessIO_DATA.Enum(), Data: &agentv1.ProcessIO_Data{Type: stream.Enum(), Data: content}})
		if err != nil || codec.WriteRecord(r.w, record) != nil || out.Flush() != nil {
			return end, nil // it has gone
		}
	}
}
