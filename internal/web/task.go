package web

import (
	"cmp"
	"context"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/sandbox"
	"github.com/tenderhq/tender/internal/words"
)

// taskOf returns a task by its framework's ID and its own.
func (s *Server) taskOf(ctx context.Context, framework, id string) (*apiv1.TaskView, error) {
	one, _ := look(ctx)
	if one.then.IsZero() {
		if m, is := ctx.Value(mirrorKey{}).(*mirror); is {
			if task := m.taskOf(framework + "/" + id); task != nil {
				return task, nil
			}
		}
		return s.operator.GetTask(ctx, &apiv1.GetTaskRequest{Task: framework + "/" + id, Exact: true})
	}
	tasks := one.tasks()
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
		if task.GetAgentId() != "" {
			actions = append(actions, does("exec", "framework", task.GetFrameworkId(), "task", task.GetId()))
		}
		actions = append(actions, does("kill", "framework", task.GetFrameworkId(), "task", task.GetId()))
	}
	shown := page{
		title: task.GetId(), nav: "/tasks", command: "tender describe task " + words.Quote(ref),
		blocks: []block{
			{key: "facts", title: "Task " + task.GetId(), body: fieldsView(facts), actions: actions},
			{key: "life", title: "Its way", wide: true, body: timelineView(s.lifeOf(r, "task/"+ref)), command: "tender events --all --of " + words.Quote("task/"+ref)},
		},
	}
	if task.GetAgentId() != "" {
		shown.blocks[0].links = []link{{"its files", taskPath(task) + "/files"}}
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
	stream := path.Base(r.URL.Path)
	task, err := s.taskOf(r.Context(), r.PathValue("framework"), r.PathValue("task"))
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
	file, err := s.fileOf(ctx, task, stream)
	if err == nil {
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

// fileOf returns a file of a task, with the ticket to read it.
func (s *Server) fileOf(ctx context.Context, task *apiv1.TaskView, path string) (sandbox.File, error) {
	return s.fileBy(ctx, task, path, s.operator.GetReadTicket)
}

// fileBy returns a file of a task, with a ticket that the leader is asked for.
func (s *Server) fileBy(ctx context.Context, task *apiv1.TaskView, path string, ask func(context.Context, *apiv1.TicketRequest, ...grpc.CallOption) (*apiv1.Ticket, error)) (sandbox.File, error) {
	ticket, err := ask(ctx, &apiv1.TicketRequest{FrameworkId: task.GetFrameworkId(), TaskId: task.GetId(), AgentId: task.GetAgentId()})
	return sandbox.File{
		Task: api.TaskRef{Framework: api.FrameworkID(task.GetFrameworkId()), Task: api.TaskID(task.GetId())}, Path: path,
		Address: task.GetAgentAddress(), Dial: s.config.Agents, Ticket: ticket.GetTicket(),
	}, err
}

// filesMax is how many entries of a folder are shown.
const filesMax = 1000

// files lists a folder of a task, as its agent has it.
func (s *Server) files(r *http.Request) (page, error) {
	task, err := s.taskOf(r.Context(), r.PathValue("framework"), r.PathValue("task"))
	if err != nil {
		return page{}, err
	}
	ref, folder := task.GetFrameworkId()+"/"+task.GetId(), path.Clean("/" + r.URL.Query().Get("path"))[1:]
	file, err := s.fileOf(r.Context(), task, folder)
	var items []sandbox.Item
	var more bool
	if err == nil {
		items, more, err = file.List(r.Context(), filesMax)
	}
	if err != nil {
		return page{}, err
	}
	shown := table{columns: []string{"Name", "Kind", "Size", "Changed"}, empty: "The folder is empty."}
	at := func(what, name string) string { return taskPath(task) + "/" + what + "?path=" + url.QueryEscape(name) }
	if folder != "" {
		shown.rows = append(shown.rows, row{"..", []cell{to("..", at("files", path.Dir(folder))), text("folder"), {}, {}}})
	}
	for _, item := range items {
		name := path.Join(folder, item.Name)
		cells := []cell{text(item.Name), text(item.Kind), number(bytesText(item.Bytes)), since(item.Modified)}
		switch item.Kind {
		case "folder":
			cells[0], cells[2] = to(item.Name, at("files", name)), cell{}
		case "file":
			cells[0] = to(item.Name, at("file", name))
		}
		shown.rows = append(shown.rows, row{item.Name, cells})
	}
	if more {
		shown.place = "the first " + grouped(filesMax)
	}
	return page{
		title: task.GetId(), nav: "/tasks", command: "tender files " + words.Quote(ref), still: true,
		blocks: []block{{
			key: "files", title: "Files of " + task.GetId(), note: "/" + folder, wide: true, body: tableView(shown), links: []link{{"back to the task", taskPath(task)}},
			command: "tender cp " + words.Quote(ref+":"+cmp.Or(folder, ".")) + " .",
		}},
	}, nil
}

// bytesText writes a number of bytes as people say it.
func bytesText(bytes int64) string {
	if bytes < 1024 {
		return fmt.Sprintf("%d B", bytes)
	}
	if bytes < 1<<20 {
		return short(float64(bytes)/1024) + " KB"
	}
	return amountText("disk", float64(bytes)/(1<<20))
}

// file sends a file of a task, to be saved: a browser must not take it for a page of this host.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	task, err := s.taskOf(r.Context(), r.PathValue("framework"), r.PathValue("task"))
	ctx, done := s.lasting(w, r)
	defer done()
	name := path.Clean("/" + r.URL.Query().Get("path"))[1:]
	to := &flowing{w: w, control: http.NewResponseController(w)}
	if err == nil {
		var file sandbox.File
		if file, err = s.fileOf(ctx, task, name); err == nil {
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
			err = file.Copy(ctx, to)
		}
	}
	switch {
	case err != nil && to.begun:
		panic(http.ErrAbortHandler) // so that nobody takes a part for the whole
	case err != nil:
		w.Header().Del("Content-Disposition")
		http.Error(w, sentenceOf(err), failed(err).code)
	}
}

// timeline is the life of a thing: what it was from when to when, and what happened to it.
type timeline struct {
	parts []lifePart
	table table
	empty string
	gaps  []string
}

// lifePart is a part of a life, as shares of the whole.
type lifePart struct {
	class, title string
	from, size   float64
}

// lifeMax is how many events of a life are shown.
const lifeMax = 200

// lifeOf tells the life of a task, KIND/NAME, from the history of the master that answers.
func (s *Server) lifeOf(r *http.Request, of string) timeline {
	list, err := apiv1.NewWatchServiceClient(s.config.Cluster).ListEvents(r.Context(), &apiv1.ListEventsRequest{Limit: lifeMax, Of: of, Kinds: []string{"task"}, Until: untilOf(r.URL.Query())})
	if err != nil {
		return timeline{empty: sentenceOf(err)}
	}
	events := list.GetItems()
	slices.Reverse(events)
	t := timeline{gaps: list.GetGaps(), empty: "The master that answers knows nothing of it any more.", table: table{columns: []string{"When", "After", "Happened", "By", "Why"}}}
	if len(events) == 0 {
		return t
	}
	first, end := events[0].GetAt().AsTime(), s.config.Clock()
	last := events[len(events)-1]
	if state, err := api.ParseTaskState(strings.ToUpper(last.GetWhat())); err == nil && state.Terminal() {
		end = last.GetAt().AsTime()
	}
	whole := max(1e-9, end.Sub(first).Seconds())
	for i, event := range events {
		at, until := event.GetAt().AsTime(), end
		if i+1 < len(events) {
			until = events[i+1].GetAt().AsTime()
		}
		after := ""
		if i > 0 {
			after = "+" + at.Sub(events[i-1].GetAt().AsTime()).Round(time.Millisecond).String()
		}
		t.table.rows = append(t.table.rows, row{fmt.Sprint(i), []cell{since(at), number(after), text(event.GetWhat()), text(event.GetBy()), text(event.GetWhy())}})
		if class := lifeClass(event.GetWhat()); until.After(at) {
			t.parts = append(t.parts, lifePart{class, event.GetWhat(), at.Sub(first).Seconds() / whole, until.Sub(at).Seconds() / whole})
		}
	}
	if len(t.parts) == 0 {
		t.parts = []lifePart{{lifeClass(last.GetWhat()), last.GetWhat(), 0, 1}}
	}
	return t
}

// lifeClass returns the colour of what a task is after an event.
func lifeClass(what string) string {
	if what == "launched" || what == "staging" || what == "starting" {
		return "c0"
	}
	return "fill-" + cmp.Or(gradeOf(&apiv1.TaskView{State: strings.ToUpper(what)}), "soft")
}
