package operator

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/mesos"
	"github.com/tenderhq/tender/internal/mesos/codec"
	"github.com/tenderhq/tender/internal/mesos/translate"
	maintenancev1 "github.com/tenderhq/tender/internal/mesos/v1/maintenance"
	masterv1 "github.com/tenderhq/tender/internal/mesos/v1/master"
)

// object is a JSON object of the older routes.
type object = map[string]any

const (
	get      = "GET, HEAD"
	post     = "POST"
	getOrPut = "GET, HEAD, PUT"
)

// table lists what is answered, by path.
func (o *Operator) table() map[string]route {
	listed := func(want parts, answer func(*state, request) any) route {
		return route{answer: func(r request) error {
			s, err := r.readState(want)
			if err != nil {
				return err
			}
			return writeJSON(r.w, answer(s, r))
		}}
	}
	everywhere := snapshot | frameworks | tasks | offers
	return map[string]route{
		"/api/v1":  {methods: post, answer: o.serveCall},
		"/health":  {public: true, answer: func(request) error { return nil }},
		"/version": {public: true, answer: func(r request) error { return writeJSON(r.w, object{"version": mesos.Version}) }},
		"/redirect": {public: true, answer: func(r request) error {
			r.w.Header().Set("Location", "//"+o.config.Address)
			r.w.WriteHeader(http.StatusTemporaryRedirect)
			return nil
		}},
		"/flags":                {methods: get, answer: func(r request) error { return serveFlags(r, r.leaderFlags) }},
		"/state":                listed(everywhere, func(s *state, _ request) any { return o.oldState(s, false) }),
		"/state-summary":        listed(everywhere, func(s *state, _ request) any { return o.oldState(s, true) }),
		"/slaves":               listed(agents, func(s *state, r request) any { return s.oldSlaves(r.r.FormValue("slave_id")) }),
		"/frameworks":           listed(everywhere, func(s *state, r request) any { return s.oldFrameworks(r.r.FormValue("framework_id"), false) }),
		"/tasks":                listed(tasks, oldTasks),
		"/roles":                listed(frameworks|roles, func(s *state, _ request) any { return s.oldRoles() }),
		"/quota":                listed(roles, func(s *state, _ request) any { return object{"infos": s.oldQuotas()} }),
		"/metrics/snapshot":     listed(everywhere, func(s *state, _ request) any { return o.metrics(s) }),
		"/maintenance/status":   listed(agents, func(s *state, _ request) any { return protoJSON(s.maintenance()) }),
		"/maintenance/schedule": {methods: get + ", " + post, answer: serveSchedule},
		"/weights":              {methods: getOrPut, answer: serveWeights},
		"/teardown":             {methods: post, answer: serveTeardown},
		"/machine/down":         {methods: post, answer: machineRoute(masterv1.Call_START_MAINTENANCE)},
		"/machine/up":           {methods: post, answer: machineRoute(masterv1.Call_STOP_MAINTENANCE)},
		"/files/browse":         {answer: o.serveBrowse},
		"/files/read":           {answer: serveRead},
		"/files/download":       {answer: serveDownload},
		"/files/debug":          {answer: serveDebug},
	}
}

// protoJSON writes a message as Mesos does.
func protoJSON(m proto.Message) json.RawMessage {
	text, err := codec.JSON.Marshal(m)
	if err != nil { // a required field is missing, which is a mistake of ours that a test would have found
		return json.RawMessage("null")
	}
	return text
}

// fullOf writes resources with what their reservations and volumes say.
func fullOf(all api.Resources) []json.RawMessage {
	shown := []json.RawMessage{}
	for _, r := range everything.WriteResources(all, "", nil) {
		shown = append(shown, protoJSON(r))
	}
	return shown
}

// amountsOf writes resources as the older routes do: the usual ones always.
func amountsOf(all api.Resources) object {
	shown := object{"cpus": 0.0, "mem": 0.0, "disk": 0.0, "gpus": 0.0}
	for _, item := range all.Items() {
		name := item.Name
		if item.Revocable {
			name += "_revocable"
		}
		switch {
		case len(item.Ranges) > 0:
			ranges := item.Ranges
			if before, is := shown[name].(string); is {
				shown[name] = strings.TrimSuffix(before, "]") + ", " + rangesText(ranges)[1:]
				continue
			}
			shown[name] = rangesText(ranges)
		case len(item.Set) > 0:
			shown[name] = "{" + strings.Join(item.Set, ", ") + "}"
		default:
			before, _ := shown[name].(float64)
			shown[name] = math.Round((before+item.Scalar.Float())*1000) / 1000
		}
	}
	return shown
}

func oldTime(at *timestamppb.Timestamp) float64 {
	if at == nil {
		return 0
	}
	return seconds(at.AsTime())
}

func (s *state) oldSlave(a *apiv1.AgentView) object {
	total := amounts(a.GetTotal())
	reserved, reservedFull, attributes := object{}, object{}, object{}
	byRole := make(map[api.Role]api.Resources)
	for _, item := range total.Items() {
		if item.Reserved != "" {
			byRole[item.Reserved] = byRole[item.Reserved].Plus(api.NewResources(item))
		}
	}
	for role, of := range byRole { // order: keys of an object
		reserved[everything.MesosRole(role)], reservedFull[everything.MesosRole(role)] = amountsOf(of), fullOf(of)
	}
	for name, value := range a.GetAttributes() { // order: keys of an object
		attributes[name] = value
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			attributes[name] = number
		}
	}
	can := []string{}
	for _, capability := range agentCapabilities {
		can = append(can, capability.String())
	}
	unreserved := total.Filter(func(l api.Label) bool { return l.Reserved == "" })
	shown := object{
		"id": a.GetId(), "hostname": a.GetHostname(), "port": translate.AgentPort, "pid": agentPID(a), "attributes": attributes,
		"registered_time": oldTime(a.GetAdmitted()), "resources": amountsOf(total), "used_resources": amountsOf(amounts(a.GetAllocated())),
		"offered_resources": amountsOf(amounts(a.GetOffered())), "reserved_resources": reserved,
		"unreserved_resources": amountsOf(unreserved), "reserved_resources_full": reservedFull, "unreserved_resources_full": fullOf(unreserved),
		"used_resources_full": fullOf(amounts(a.GetAllocated())), "offered_resources_full": fullOf(amounts(a.GetOffered())),
		"active": active(a), "deactivated": !active(a), "version": mesos.Version, "capabilities": can,
	}
	if domain := translate.Domain(a.GetRegion(), a.GetZone()); domain != nil {
		shown["domain"] = protoJSON(domain)
	}
	return shown
}

// oldSlaves lists agents, or the one that is named.
func (s *state) oldSlaves(id string) object {
	slaves, expected := []object{}, []object{}
	for _, a := range s.agents {
		switch {
		case id != "" && a.GetId() != id:
		case registered(a):
			slaves = append(slaves, s.oldSlave(a))
		case recovered(a):
			expected = append(expected, s.oldSlave(a))
		}
	}
	return object{"slaves": slaves, "recovered_slaves": expected}
}

func oldTask(t *apiv1.TaskView) object {
	state, _ := stateOf(t)
	status := statusOf(t)
	executor := executorOf(t)
	if t.GetExecutorId() == string(api.CommandExecutor) {
		executor = "" // as Mesos shows commands
	}
	old := object{"state": status.GetState().String(), "timestamp": status.GetTimestamp()}
	if status.Healthy != nil {
		old["healthy"] = status.GetHealthy()
	}
	if status.GetContainerStatus() != nil {
		old["container_status"] = protoJSON(status.GetContainerStatus())
	}
	shown := object{
		"id": translate.UnescapeID(t.GetId()), "name": t.GetName(), "framework_id": t.GetFrameworkId(), "executor_id": executor, "slave_id": t.GetAgentId(),
		"state": everything.State(state).String(), "resources": amountsOf(amounts(t.GetResources())), "role": everything.MesosRole(api.Role(t.GetRole())),
		"statuses": []object{old},
	}
	labels := []object{}
	for _, label := range translate.MesosLabels(t.GetLabels()).GetLabels() {
		labels = append(labels, object{"key": label.GetKey(), "value": label.GetValue()})
	}
	if len(labels) > 0 {
		shown["labels"] = labels
	}
	mesosTask := taskOf(t)
	if mesosTask.GetDiscovery() != nil {
		shown["discovery"] = protoJSON(mesosTask.GetDiscovery())
	}
	if mesosTask.GetContainer() != nil {
		shown["container"] = protoJSON(mesosTask.GetContainer())
	}
	if user := t.GetCommand().GetUser(); user != "" {
		shown["user"] = user
	}
	return shown
}

// tasksMax is how many tasks /tasks lists unless more are asked for, as in Mesos.
const tasksMax = 100

// oldTasks lists a page of the tasks, the newest first, unless order=asc.
func oldTasks(s *state, r request) any {
	all := slices.Clone(s.tasks)
	slices.SortStableFunc(all, func(a, b *apiv1.TaskView) int {
		order := a.GetLaunched().AsTime().Compare(b.GetLaunched().AsTime())
		if r.r.FormValue("order") == "asc" {
			return order
		}
		return -order
	})
	framework, id := r.r.FormValue("framework_id"), r.r.FormValue("task_id")
	all = slices.DeleteFunc(all, func(t *apiv1.TaskView) bool {
		return framework != "" && t.GetFrameworkId() != framework || id != "" && translate.UnescapeID(t.GetId()) != id
	})
	offset, _ := strconv.Atoi(r.r.FormValue("offset"))
	limit, err := strconv.Atoi(r.r.FormValue("limit"))
	if err != nil || limit < 0 {
		limit = tasksMax
	}
	all = all[min(max(offset, 0), len(all)):]
	shown := []object{}
	for _, t := range all[:min(limit, len(all))] {
		shown = append(shown, oldTask(t))
	}
	return object{"tasks": shown}
}

func (s *state) oldFramework(f *apiv1.FrameworkView, summary bool) object {
	used, offered := amounts(f.GetAllocated()), amounts(f.GetOffered())
	info := frameworkInfo(f)
	can := []string{}
	for _, capability := range info.GetCapabilities() {
		can = append(can, capability.GetType().String())
	}
	shown := object{
		"id": f.GetId(), "name": f.GetName(), "hostname": "", "webui_url": info.GetWebuiUrl(), "user": info.GetUser(),
		"active": f.GetState() == "active", "connected": f.GetState() == "active", "recovered": false, "checkpoint": true,
		"failover_timeout": info.GetFailoverTimeout(), "principal": info.GetPrincipal(), "roles": append([]string{}, info.GetRoles()...), "capabilities": can,
		"used_resources": amountsOf(used), "offered_resources": amountsOf(offered), "resources": amountsOf(used.Plus(offered)),
		"registered_time": oldTime(f.GetAdmitted()), "unregistered_time": 0.0,
	}
	if f.GetState() == removed {
		shown["unregistered_time"] = oldTime(f.GetSince())
	}
	if labels := info.GetLabels(); labels != nil {
		shown["labels"] = labels.GetLabels()
	}
	if summary {
		return shown
	}
	running, ended, unreachable, open, executors := []object{}, []object{}, []object{}, []object{}, []object{}
	for _, t := range s.tasks {
		if t.GetFrameworkId() != f.GetId() {
			continue
		}
		switch state, over := stateOf(t); {
		case over:
			ended = append(ended, oldTask(t))
		case state == api.TaskUnreachable:
			unreachable = append(unreachable, oldTask(t))
		default:
			running = append(running, oldTask(t))
		}
	}
	for _, offer := range s.offers {
		if offer.GetFrameworkId() == f.GetId() {
			open = append(open, object{"id": offer.GetId(), "framework_id": f.GetId(), "slave_id": offer.GetAgentId(), "resources": amountsOf(amounts(offer.GetResources()))})
		}
	}
	for _, x := range s.customExecutors() {
		if x.GetFrameworkId() == f.GetId() {
			id := translate.UnescapeID(x.GetId())
			executors = append(executors, object{"executor_id": id, "name": id, "framework_id": f.GetId(), "slave_id": x.GetAgentId()})
		}
	}
	shown["tasks"], shown["completed_tasks"], shown["unreachable_tasks"], shown["offers"], shown["executors"] = running, ended, unreachable, open, executors
	return shown
}

// oldFrameworks lists frameworks, or the one that is named.
func (s *state) oldFrameworks(id string, summary bool) object {
	there, over := []object{}, []object{}
	for _, f := range s.frameworks {
		switch {
		case id != "" && f.GetId() != id:
		case f.GetState() == removed:
			over = append(over, s.oldFramework(f, summary))
		default:
			there = append(there, s.oldFramework(f, summary))
		}
	}
	return object{"frameworks": there, "completed_frameworks": over, "unregistered_frameworks": []string{}}
}

// oldState is /state, and its summary.
func (o *Operator) oldState(s *state, summary bool) object {
	master := translate.MasterInfo(o.config.Address)
	all := s.oldFrameworks("", summary)
	maps.Copy(all, s.oldSlaves(""))
	on, off, away := 0, 0, 0
	for _, a := range s.agents {
		switch {
		case active(a):
			on++
		case registered(a):
			off++
		case unreachable(a):
			away++
		}
	}
	maps.Copy(all, object{
		"version": mesos.Version, "id": master.GetId(), "pid": master.GetPid(), "hostname": master.GetHostname(), "leader": master.GetPid(),
		"leader_info": object{"id": master.GetId(), "hostname": master.GetHostname(), "pid": master.GetPid(), "port": master.GetPort()},
		"start_time":  seconds(o.began), "elected_time": seconds(o.began), "cluster": "tender", "flags": object{}, "orphan_tasks": []string{},
		"activated_slaves": on, "deactivated_slaves": off, "unreachable_slaves": away,
	})
	return all
}

func (s *state) oldRoles() object {
	list := []object{}
	for _, r := range s.roles {
		name := everything.MesosRole(api.Role(r.GetRole()))
		list = append(list, object{
			"name": name, "weight": r.GetWeight(), "frameworks": append([]string{}, s.inRole(r.GetRole())...), "resources": amountsOf(amounts(r.GetAllocated())),
			"allocated": amountsOf(amounts(r.GetAllocated())), "offered": amountsOf(amounts(r.GetOffered())), "reserved": amountsOf(amounts(r.GetReserved())),
			"quota": object{"role": name, "guarantee": scalarsOf(r.GetGuarantee()), "limit": scalarsOf(r.GetLimit())},
		})
	}
	return object{"roles": list}
}

func scalarsOf(shown *structpb.Struct) object {
	all := object{}
	for _, item := range amounts(shown).Items() {
		all[item.Name] = item.Scalar.Float()
	}
	return all
}

func (s *state) oldQuotas() []object {
	list := []object{}
	for _, config := range s.quotas() {
		guarantee := []object{}
		for _, name := range slices.Sorted(maps.Keys(config.GetGuarantees())) {
			guarantee = append(guarantee, object{"name": name, "type": "SCALAR", "scalar": object{"value": config.GetGuarantees()[name].GetValue()}})
		}
		list = append(list, object{"role": config.GetRole(), "guarantee": guarantee})
	}
	return list
}

// metrics counts what tools look at: of Mesos's metrics those that are about what there is.
func (o *Operator) metrics(s *state) map[string]float64 {
	all := map[string]float64{"master/elected": 1}
	o.count(all, "master/", s)
	for _, name := range []string{"slaves_active", "slaves_inactive", "slaves_connected", "slaves_disconnected", "slaves_unreachable",
		"frameworks_active", "frameworks_inactive", "frameworks_connected", "frameworks_disconnected"} {
		all["master/"+name] = 0
	}
	count := func(name string, is bool) {
		if is {
			all["master/"+name]++
		}
	}
	for _, a := range s.agents {
		there := registered(a)
		count("slaves_active", active(a))
		count("slaves_inactive", there && !active(a))
		count("slaves_connected", there)
		count("slaves_disconnected", recovered(a))
		count("slaves_unreachable", unreachable(a))
	}
	for _, f := range s.frameworks {
		there := f.GetState() != removed
		count("frameworks_active", f.GetState() == "active")
		count("frameworks_connected", f.GetState() == "active")
		count("frameworks_inactive", there && f.GetState() != "active")
		count("frameworks_disconnected", there && f.GetState() != "active")
	}
	all["master/outstanding_offers"] = float64(len(s.offers))
	return all
}

// agentMetrics does the same for the agents of a host.
func (o *Operator) agentMetrics(s *state) map[string]float64 {
	all := map[string]float64{
		"slave/registered": 1, "slave/frameworks_active": float64(len(s.frameworks)), "slave/executors_running": float64(len(s.executors)),
	}
	o.count(all, "slave/", s)
	return all
}

// count counts what masters and agents have in common: resources and tasks.
func (o *Operator) count(all map[string]float64, of string, s *state) {
	all[of+"uptime_secs"] = math.Round(o.now().Sub(o.began).Seconds())
	for _, name := range []string{"cpus", "mem", "disk", "gpus"} {
		total, used := 0.0, 0.0
		for _, a := range s.agents {
			if registered(a) {
				total += sum(amounts(a.GetTotal()), name)
				used += sum(amounts(a.GetAllocated()), name)
			}
		}
		all[of+name+"_total"], all[of+name+"_used"], all[of+name+"_percent"] = total, used, 0
		if total > 0 {
			all[of+name+"_percent"] = used / total
		}
	}
	counted := map[api.TaskState]string{
		api.TaskStaging: "staging", api.TaskStarting: "starting", api.TaskRunning: "running", api.TaskKilling: "killing", api.TaskFinished: "finished",
		api.TaskFailed: "failed", api.TaskKilled: "killed", api.TaskError: "error", api.TaskDropped: "dropped", api.TaskGone: "gone",
		api.TaskGoneByOperator: "gone_by_operator", api.TaskUnreachable: "unreachable",
	}
	for _, name := range counted { // order: sums
		all[of+"tasks_"+name] = 0
	}
	for _, t := range slices.Concat(s.tasks, s.over) {
		if state, _ := stateOf(t); counted[state] != "" {
			all[of+"tasks_"+counted[state]]++
		}
	}
}

// sum adds up the firm amounts of a kind, reserved or not.
func sum(resources api.Resources, name string) (total float64) {
	for _, item := range resources.Items() {
		if item.Name == name && !item.Revocable {
			total += item.Scalar.Float()
		}
	}
	return total
}

// formMax bounds the body of an older route.
const formMax = 1 << 20

// readBody reads a JSON body into a message of the operator API, as the part of it that the format names.
func readBody(r request, format string, into proto.Message) error {
	body, err := io.ReadAll(http.MaxBytesReader(r.w, r.r.Body, formMax))
	if err != nil {
		return codec.Refuse(http.StatusBadRequest, "Failed to read the body: %v", err)
	}
	if err := codec.JSON.Unmarshal(fmt.Appendf(nil, format, body), into); err != nil {
		return codec.Refuse(http.StatusBadRequest, "Failed to parse the body: %v", err)
	}
	return nil
}

// serveSchedule shows or replaces the maintenance schedule.
func serveSchedule(r request) error {
	if r.r.Method != http.MethodPost {
		s, err := readState(r.r.Context(), r.cluster, agents)
		if err != nil {
			return err
		}
		return writeJSON(r.w, protoJSON(s.schedule()))
	}
	schedule := new(maintenancev1.Schedule)
	if err := readBody(r, "%s", schedule); err != nil {
		return err
	}
	return updateSchedule(r.r.Context(), r.cluster, &masterv1.Call{UpdateMaintenanceSchedule: &masterv1.Call_UpdateMaintenanceSchedule{Schedule: schedule}})
}

// machineRoute takes machines down, or brings them up: the body is a list of them.
func machineRoute(kind masterv1.Call_Type) func(request) error {
	return func(r request) error {
		machines := new(masterv1.Call_StartMaintenance)
		if err := readBody(r, `{"machines":%s}`, machines); err != nil {
			return err
		}
		call := &masterv1.Call{StartMaintenance: machines, StopMaintenance: &masterv1.Call_StopMaintenance{Machines: machines.GetMachines()}}
		return actions[kind].act(r.r.Context(), r.cluster, call)
	}
}

// serveWeights shows the weights, or changes those that the body names.
func serveWeights(r request) error {
	if r.r.Method == http.MethodPut {
		update := new(masterv1.Call_UpdateWeights)
		if err := readBody(r, `{"weight_infos":%s}`, update); err != nil {
			return err
		}
		return updateWeights(r.r.Context(), r.cluster, &masterv1.Call{UpdateWeights: update})
	}
	s, err := readState(r.r.Context(), r.cluster, roles)
	if err != nil {
		return err
	}
	list := []json.RawMessage{}
	for _, info := range s.weights() {
		list = append(list, protoJSON(info))
	}
	return writeJSON(r.w, list)
}

// serveTeardown removes the framework that a form names.
func serveTeardown(r request) error {
	r.r.Body = http.MaxBytesReader(r.w, r.r.Body, formMax)
	id := r.r.PostFormValue("frameworkId")
	if id == "" {
		return codec.Refuse(http.StatusBadRequest, "Missing 'frameworkId' in the request body")
	}
	_, err := r.cluster.Operator().RemoveFramework(r.r.Context(), &apiv1.RemoveFrameworkRequest{FrameworkId: id, Force: true})
	return err
}
