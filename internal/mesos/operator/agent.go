package operator

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/frames"
	"github.com/tenderhq/tender/internal/mesos"
	"github.com/tenderhq/tender/internal/mesos/codec"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	agentv1 "github.com/tenderhq/tender/internal/mesos/v1/agent"
	"github.com/tenderhq/tender/internal/sandbox"
)

// Agent answers as the agents of a Mesos cluster do. Tools look for an agent at its hostname, so that the agents that a
// request is about are those of the host that it names; of another host, all.
func (o *Operator) Agent() http.Handler {
	routes := o.agentTable()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { o.answer(w, r, routes, "/slave(1)") })
}

func (o *Operator) agentTable() map[string]route {
	listed := func(answer func(*state) any) route {
		return route{answer: func(r request) error {
			s, err := r.readAgentState()
			if err != nil {
				return err
			}
			return writeJSON(r.w, answer(s))
		}}
	}
	of := o.table()
	routes := map[string]route{
		"/api/v1":             {methods: post, answer: o.serveAgentCall},
		"/state":              listed(func(s *state) any { return s.oldAgentState() }),
		"/containers":         listed(func(s *state) any { return s.oldContainers() }),
		"/monitor/statistics": listed(func(s *state) any { return s.oldContainers() }),
		"/metrics/snapshot":   listed(func(s *state) any { return o.agentMetrics(s) }),
	}
	routes["/flags"] = route{answer: func(r request) error { return serveFlags(r, r.agentFlags) }}
	for _, name := range []string{"/health", "/version", "/files/browse", "/files/read", "/files/download", "/files/debug"} {
		routes[name] = of[name]
	}
	return routes
}

// readAgentState reads what concerns the agents of the host that the request names.
func (r request) readAgentState() (*state, error) {
	s, err := readState(r.r.Context(), r.cluster, agents|frameworks|tasks|executors)
	if err != nil {
		return nil, err
	}
	s.agents = s.agentsAt(r.r.Host)
	onThem := func(agent string) bool {
		return slices.ContainsFunc(s.agents, func(a *apiv1.AgentView) bool { return a.GetId() == agent })
	}
	s.executors = slices.DeleteFunc(s.executors, func(x *apiv1.ExecutorView) bool { return !onThem(x.GetAgentId()) })
	s.tasks = slices.DeleteFunc(s.tasks, func(t *apiv1.TaskView) bool {
		_, over := stateOf(t)
		if over && onThem(t.GetAgentId()) {
			s.over = append(s.over, t)
		}
		return over || !onThem(t.GetAgentId())
	})
	s.frameworks = slices.DeleteFunc(s.frameworks, func(f *apiv1.FrameworkView) bool {
		isOf := func(t *apiv1.TaskView) bool { return t.GetFrameworkId() == f.GetId() }
		here := slices.ContainsFunc(s.tasks, isOf)
		if !here && slices.ContainsFunc(s.over, isOf) {
			s.former = append(s.former, f)
		}
		return !here
	})
	return s, nil
}

// agentsAt returns the agents of a host, or all if none is there.
func (s *state) agentsAt(host string) (here []*apiv1.AgentView) {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	for _, a := range s.agents {
		if strings.EqualFold(a.GetHostname(), host) || ipOf(a) == host {
			here = append(here, a)
		}
	}
	if here == nil {
		return s.agents
	}
	return here
}

// containerOf names the container of a task, as its statuses do.
func containerOf(t *apiv1.TaskView) *mesosv1.ContainerID {
	return statusOf(t).GetContainerStatus().GetContainerId()
}

// oldAgentState is /state of an agent.
func (s *state) oldAgentState() object {
	shown := object{"version": mesos.Version, "flags": object{"work_dir": ""}} // whose files are named from the root
	if len(s.agents) > 0 {
		maps.Copy(shown, s.oldSlave(s.agents[0]))
	}
	shown["frameworks"], shown["completed_frameworks"] = s.oldAgentFrameworks(s.frameworks), s.oldAgentFrameworks(s.former)
	return shown
}

// oldAgentFrameworks shows what an agent has of frameworks.
func (s *state) oldAgentFrameworks(frameworks []*apiv1.FrameworkView) []object {
	list := []object{}
	for _, f := range frameworks {
		framework := s.oldFramework(f, true)
		framework["executors"] = oldAgentExecutors(f, s.tasks, "tasks")
		framework["completed_executors"] = oldAgentExecutors(f, s.over, "completed_tasks")
		list = append(list, framework)
	}
	return list
}

// oldAgentExecutors shows an executor for each of the framework's tasks. which says where it has the task.
func oldAgentExecutors(f *apiv1.FrameworkView, tasks []*apiv1.TaskView, which string) []object {
	executors := []object{}
	for _, t := range tasks {
		if t.GetFrameworkId() != f.GetId() {
			continue
		}
		executor := object{
			"id": executorOf(t), "name": t.GetName(), "source": executorOf(t), "container": containerOf(t).GetValue(), "directory": directoryOf(t),
			"resources": amountsOf(amounts(t.GetResources())), "tasks": []object{}, "queued_tasks": []object{}, "completed_tasks": []object{},
		}
		executor[which] = []object{oldTask(t)}
		executors = append(executors, executor)
	}
	return executors
}

// statistics are what a task uses, as far as its agent has told.
func statistics(t *apiv1.TaskView) *mesosv1.ResourceStatistics {
	asked, used := amounts(t.GetResources()), t.GetUsage()
	shown := &mesosv1.ResourceStatistics{
		Timestamp: proto.Float64(seconds(used.GetAt().AsTime())), CpusLimit: proto.Float64(sum(asked, "cpus")),
		MemLimitBytes: proto.Uint64(uint64(sum(asked, "mem") * (1 << 20))),
	}
	if used != nil {
		shown.CpusUserTimeSecs, shown.CpusSystemTimeSecs = proto.Float64(used.GetCpuTime().AsDuration().Seconds()), proto.Float64(0)
		shown.MemRssBytes = proto.Uint64(uint64(float64(used.GetMemMilli()) / 1000 * (1 << 20)))
		shown.Processes = proto.Uint32(uint32(used.GetProcesses()))
	}
	return shown
}

func (s *state) containers() (list []*agentv1.Response_GetContainers_Container) {
	for _, t := range s.tasks {
		list = append(list, &agentv1.Response_GetContainers_Container{
			FrameworkId: &mesosv1.FrameworkID{Value: text(t.GetFrameworkId())}, ExecutorId: &mesosv1.ExecutorID{Value: text(executorOf(t))},
			ExecutorName: text(t.GetName()), ContainerId: containerOf(t), ContainerStatus: statusOf(t).GetContainerStatus(), ResourceStatistics: statistics(t),
		})
	}
	return list
}

func (s *state) oldContainers() []object {
	list := []object{}
	for _, c := range s.containers() {
		list = append(list, object{
			"framework_id": c.GetFrameworkId().GetValue(), "executor_id": c.GetExecutorId().GetValue(), "executor_name": c.GetExecutorName(),
			"source": c.GetExecutorId().GetValue(), "container_id": c.GetContainerId().GetValue(), "status": protoJSON(c.GetContainerStatus()),
			"statistics": protoJSON(c.GetResourceStatistics()),
		})
	}
	return list
}

// serveAgentCall answers /api/v1 of an agent.
func (o *Operator) serveAgentCall(r request) error {
	if r.r.Header.Get("Content-Type") == codec.RecordIO {
		return o.attachInput(r)
	}
	call := new(agentv1.Call)
	answer, err := readCall(r, call)
	if err != nil {
		return err
	}
	switch call.GetType() {
	case agentv1.Call_ATTACH_CONTAINER_OUTPUT:
		return o.attachOutput(r, call.GetAttachContainerOutput().GetContainerId(), answer)
	case agentv1.Call_LAUNCH_NESTED_CONTAINER_SESSION:
		return o.launchSession(r, call.GetLaunchNestedContainerSession(), answer)
	}
	response := new(agentv1.Response)
	if number, is := agentv1.Response_Type_value[call.GetType().String()]; is {
		response.Type = agentv1.Response_Type(number).Enum()
	}
	is, err := o.answerNested(r, call, response)
	switch {
	case is:
	case call.GetType() == agentv1.Call_PRUNE_IMAGES:
		err = r.pruneImages(call.GetPruneImages())
	default:
		err = o.readAgent(r, call, response)
	}
	if err != nil || response.Type == nil { // nothing is said of what was done
		return err
	}
	return writeAnswer(r, answer, response)
}

// readAgent answers a call that changes nothing.
func (o *Operator) readAgent(r request, call *agentv1.Call, response *agentv1.Response) error {
	switch call.GetType() {
	case agentv1.Call_GET_HEALTH:
		response.GetHealth = &agentv1.Response_GetHealth{Healthy: proto.Bool(true)}
		return nil
	case agentv1.Call_GET_FLAGS:
		flags, err := r.agentFlags()
		response.GetFlags = &agentv1.Response_GetFlags{Flags: flagsOf(flags)}
		return err
	case agentv1.Call_GET_VERSION:
		response.GetVersion = &agentv1.Response_GetVersion{VersionInfo: &mesosv1.VersionInfo{Version: text(mesos.Version)}}
		return nil
	case agentv1.Call_LIST_FILES:
		infos, err := o.listFiles(r, call.GetListFiles().GetPath())
		response.ListFiles = &agentv1.Response_ListFiles{FileInfos: infos}
		return err
	case agentv1.Call_READ_FILE:
		asked := call.GetReadFile()
		data, size, err := r.readFile(asked.GetPath(), int64(asked.GetOffset()), asked.Length)
		response.ReadFile = &agentv1.Response_ReadFile{Size: proto.Uint64(uint64(size)), Data: data}
		return err
	}
	s, err := r.readAgentState()
	if err != nil {
		return err
	}
	switch call.GetType() {
	case agentv1.Call_GET_CONTAINERS:
		response.GetContainers = &agentv1.Response_GetContainers{Containers: s.containers()}
	case agentv1.Call_GET_AGENT:
		response.GetAgent = new(agentv1.Response_GetAgent)
		if len(s.agents) > 0 {
			response.GetAgent.AgentInfo = agentInfo(s.agents[0])
		}
	case agentv1.Call_GET_FRAMEWORKS:
		response.GetFrameworks = s.agentFrameworks()
	case agentv1.Call_GET_TASKS:
		response.GetTasks = s.agentTasks()
	case agentv1.Call_GET_EXECUTORS:
		response.GetExecutors = s.agentExecutors()
	case agentv1.Call_GET_OPERATIONS:
		operations, err := r.operationsOf(r.r.Context(), s.agents)
		response.GetOperations = &agentv1.Response_GetOperations{Operations: operations}
		return err
	case agentv1.Call_GET_STATE:
		response.GetState = &agentv1.Response_GetState{GetTasks: s.agentTasks(), GetExecutors: s.agentExecutors(), GetFrameworks: s.agentFrameworks()}
	default:
		return codec.Refuse(http.StatusNotImplemented, "%s has no equivalent in Tender", call.GetType())
	}
	return nil
}

func (s *state) agentFrameworks() *agentv1.Response_GetFrameworks {
	all := new(agentv1.Response_GetFrameworks)
	for _, f := range s.frameworks {
		all.Frameworks = append(all.Frameworks, &agentv1.Response_GetFrameworks_Framework{FrameworkInfo: frameworkInfo(f)})
	}
	return all
}

func (s *state) agentTasks() *agentv1.Response_GetTasks {
	all := new(agentv1.Response_GetTasks)
	for _, t := range s.tasks {
		all.LaunchedTasks = append(all.LaunchedTasks, taskOf(t))
	}
	for _, t := range s.over {
		all.CompletedTasks = append(all.CompletedTasks, taskOf(t))
	}
	return all
}

func (s *state) agentExecutors() *agentv1.Response_GetExecutors {
	all := new(agentv1.Response_GetExecutors)
	for _, x := range s.customExecutors() {
		all.Executors = append(all.Executors, &agentv1.Response_GetExecutors_Executor{ExecutorInfo: executorInfo(x)})
	}
	return all
}

// join runs a command inside the task of a container.
func (o *Operator) join(ctx context.Context, r request, id *mesosv1.ContainerID, command frames.Command) (io.ReadWriteCloser, error) {
	task, err := r.cluster.Operator().GetTask(ctx, &apiv1.GetTaskRequest{Task: id.GetValue(), Exact: true})
	if state, _ := api.ParseTaskState(task.GetState()); state.Terminal() || api.Is(client.Error(err), api.NotFound) {
		return nil, codec.Refuse(http.StatusNotFound, "Container '%s' cannot be found (or is killed)", id.GetValue())
	}
	if err != nil {
		return nil, err
	}
	if task.GetAgentAddress() == "" {
		return nil, codec.Refuse(http.StatusServiceUnavailable, "Container '%s' can't be attached to: %v", id.GetValue(), sandbox.ErrNoAddress)
	}
	ref := api.TaskRef{Framework: api.FrameworkID(task.GetFrameworkId()), Task: api.TaskID(task.GetId())}
	ticket, err := r.cluster.ExecTicket(ctx, ref, api.AgentID(task.GetAgentId()))
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return r.cluster.DialAgent(ctx, address)
	}}
	conn, err := frames.Dial(ctx, &http.Client{Transport: transport}, task.GetAgentAddress(), ref, ticket)
	if err != nil {
		return nil, err
	}
	if err := frames.NewWriter(conn).WriteJSON(frames.Order, command); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// attachOutput streams what a task with a terminal says.
func (o *Operator) attachOutput(r request, id *mesosv1.ContainerID, encoding codec.Encoding) error {
	if id.GetParent() != nil {
		return codec.Refuse(http.StatusNotImplemented, "the output of a nested container goes to who has launched it")
	}
	conn, err := o.join(r.r.Context(), r, id, o.attaching())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := frames.NewWriter(conn).Write(frames.StdinEnd, nil); err != nil {
		return err
	}
	_, err = o.stream(r, conn, encoding)
	return err
}

// attaching is the command that attaches to the terminal of the task in which it runs.
func (o *Operator) attaching(args ...string) frames.Command {
	return frames.Command{Argv: append(append(slices.Clone(o.config.Adapter), "attach"), args...)}
}

// inputRecordMax bounds a record of what a client types.
const inputRecordMax = 1 << 20

// attachInput passes on what a client types, record by record, until it ends the request. The first record names the
// container.
func (o *Operator) attachInput(r request) error {
	encoding, ok := codec.MessageEncoding(r.r.Header)
	if !ok {
		return codec.Refuse(http.StatusUnsupportedMediaType, "Expecting 'Message-Content-Type' of application/json or application/x-protobuf")
	}
	records := codec.NewRecordReader(r.r.Body, inputRecordMax)
	next := func() (*agentv1.Call_AttachContainerInput, error) {
		record, err := records.Next()
		if err != nil {
			return nil, err
		}
		call := new(agentv1.Call)
		if err := encoding.Unmarshal(record, call); err != nil {
			return nil, err
		}
		return call.GetAttachContainerInput(), nil
	}
	first, err := next()
	if err != nil || first.GetType() != agentv1.Call_AttachContainerInput_CONTAINER_ID {
		return codec.Refuse(http.StatusBadRequest, "Expecting 'attach_container_input.container_id' in the first record")
	}
	ctx, cancel := context.WithCancel(r.r.Context())
	defer cancel()
	var to, typed *frames.Writer
	leave := func() {} // only an empty record ends the input of a nested container: the next client may go on with it
	if first.GetContainerId().GetParent() != nil {
		if _, to, err = o.sessionOf(r, first.GetContainerId()); err != nil {
			return err
		}
		if to == nil {
			return codec.Refuse(http.StatusServiceUnavailable, "Container '%s' has not begun yet", keyOf(first.GetContainerId()))
		}
		typed = to
	} else {
		conn, err := o.join(ctx, r, first.GetContainerId(), o.attaching("--input"))
		if err != nil {
			return err
		}
		defer conn.Close()
		to = frames.NewWriter(conn)
		typed = frames.NewWriter(nested{to}) // frames for the terminal, within those for the command that attaches
		leave = func() { _ = to.Write(frames.StdinEnd, nil) }
	}
	for {
		input, err := next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || r.r.Context().Err() != nil {
			leave()
			return nil
		}
		if err != nil {
			return codec.Refuse(http.StatusBadRequest, "Failed to read a record: %v", err)
		}
		process := input.GetProcessIo()
		switch size := process.GetControl().GetTtyInfo().GetWindowSize(); {
		case process.GetData() != nil && len(process.GetData().GetData()) == 0: // the end of what is typed
			err = to.Write(frames.StdinEnd, nil)
		case len(process.GetData().GetData()) > 0:
			err = typed.Copy(frames.Stdin, strings.NewReader(string(process.GetData().GetData())))
		case size != nil:
			err = typed.WriteSize(uint16(size.GetRows()), uint16(size.GetColumns()))
		}
		if err != nil {
			return nil // the task has ended
		}
	}
}

// nested writes as the input of a command.
type nested struct{ to *frames.Writer }

func (n nested) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part := rest[:min(len(rest), 32<<10)]
		if err := n.to.Write(frames.Stdin, part); err != nil {
			return 0, err
		}
		rest = rest[len(part):]
	}
	return len(p), nil
}
