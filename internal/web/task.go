package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/sandbox"
	"github.com/tenderhq/tender/internal/words"
)

// taskOf returns a task by its framework's ID and its own.
func (s *Server) taskOf(ctx context.Context, framework, id string) (*apiv1.TaskView, error) {
	one, _ := look(ctx)
	tasks := one.tasks
	if one.then.IsZero() {
		found, err := s.operator.ListTasks(ctx, &apiv1.ListTasksRequest{Prefix: framework + "/" + id, All: true})
		if err != nil {
			return nil, err
		}
		tasks = found.GetItems()
	}
	i := slices.IndexFunc(tasks, func(one *apiv1.TaskView) bool { return one.GetFrameworkId() == framework && one.GetId() == id })
	if i < 0 {
		return nil, missing("task", framework+"/"+id)
	}
	return tasks[i], nil
}

// task is one task, with its output.
func (s *Server) task(r *http.Request) (page, error) {
	task, err := s.taskOf(r.Context(), r.PathValue("framework"), r.PathValue("task"))
	if err != nil {
		return page{}, err
	}
	ref := task.GetFrameworkId() + "/" + task.GetId()
	facts := []field{
		{"Is", cell{text: task.GetState(), class: gradeOf(task)}}, {"Why", text(whyOf(task))}, {"Since", since(timeOf(task.GetSince()))},
		{"Launched", since(timeOf(task.GetLaunched()))}, {"Name", text(task.GetName())},
		{"Framework", to(strings.TrimSpace(task.GetFrameworkName()+" "+task.GetFrameworkId()), frameworkPath(task.GetFrameworkId()))},
		{"Role", text(task.GetRole())}, {"For", text(task.GetOwner())}, {"On", to(strings.TrimSpace(task.GetHostname()+" "+task.GetAgentId()), agentPath(task.GetAgentId()))},
		{"Executor", text(task.GetExecutorId())}, {"Has", text(resourcesText(task.GetResources()))}, {"Really uses", text(usageText(task.GetUsage()))},
		{"Ports", text(words.Pairs(task.GetPorts()))}, {"Labels", text(words.Pairs(task.GetLabels()))}, {"Image", text(task.GetImage())}, {"Command", text(commandOf(task))},
	}
	if task.ExitCode != nil {
		facts = append(facts, field{"Exit code", text(strconv.Itoa(int(task.GetExitCode())))})
	}
	var actions []link
	if state, err := api.ParseTaskState(task.GetState()); err == nil && !state.Terminal() {
		actions = append(actions, does("kill", "framework", task.GetFrameworkId(), "task", task.GetId()))
	}
	shown := page{
		title: task.GetId(), nav: "/tasks", command: "tender describe task " + words.Quote(ref),
		blocks: []block{{key: "facts", title: "Task " + task.GetId(), body: fieldsView(facts), actions: actions}},
	}
	for _, stream := range []string{"stdout", "stderr"} {
		command := "tender logs -f " + words.Quote(ref)
		if stream == "stderr" {
			command = "tender logs -f --stderr " + words.Quote(ref)
		}
		part := block{key: stream, title: "Its " + stream, command: command, body: outputView(taskPath(task) + "/" + stream)}
		if task.GetAgentId() == "" {
			part.body = sentences([]string{"It was never on an agent, so it has none."})
		}
		shown.blocks = append(shown.blocks, part)
	}
	return shown, nil
}

// commandOf returns the command line of a task.
func commandOf(task *apiv1.TaskView) string {
	if argv := task.GetCommand().GetArgv(); len(argv) > 0 {
		quotedWords := make([]string, len(argv))
		for i, word := range argv {
			quotedWords[i] = words.Quote(word)
		}
		return strings.Join(quotedWords, " ")
	}
	return task.GetCommand().GetShell()
}

// output sends an output of a task as text, and what is added to it for as long as the task runs.
func (s *Server) output(w http.ResponseWriter, r *http.Request) {
	stream := r.PathValue("stream")
	task, err := s.taskOf(r.Context(), r.PathValue("framework"), r.PathValue("task"))
	if err == nil && stream != "stdout" && stream != "stderr" {
		err = missing("output", stream)
	}
	if err != nil {
		http.Error(w, sentenceOf(err), failed(err).code)
		return
	}
	offset, err := strconv.ParseInt("0"+r.URL.Query().Get("offset"), 10, 64)
	if err != nil {
		http.Error(w, "the offset is a number of bytes", http.StatusBadRequest)
		return
	}
	ctx, done := s.lasting(w, r)
	defer done()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	to := &flowing{w: w, control: http.NewResponseController(w)}
	ticket, err := s.operator.GetReadTicket(ctx, &apiv1.TicketRequest{FrameworkId: task.GetFrameworkId(), TaskId: task.GetId(), AgentId: task.GetAgentId()})
	if err == nil {
		file := sandbox.File{
			Task: api.TaskRef{Framework: api.FrameworkID(task.GetFrameworkId()), Task: api.TaskID(task.GetId())}, Path: stream,
			Address: task.GetAgentAddress(), Dial: s.config.Agents, Ticket: ticket.GetTicket(),
		}
		_, err = file.Follow(ctx, offset, to)
	}
	if err != nil && !to.begun {
		http.Error(w, sentenceOf(err), failed(err).code)
	}
}

// flowing sends each part of an output at once.
type flowing struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (f *flowing) Write(part []byte) (int, error) {
	f.begun = true
	_ = f.control.SetWriteDeadline(time.Now().Add(sendMax))
	n, err := f.w.Write(part)
	if err != nil {
		return n, err
	}
	return n, f.control.Flush()
}
