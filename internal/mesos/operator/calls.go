package operator

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/mesos"
	"github.com/tenderhq/tender/internal/mesos/codec"
	"github.com/tenderhq/tender/internal/mesos/translate"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	maintenancev1 "github.com/tenderhq/tender/internal/mesos/v1/maintenance"
	masterv1 "github.com/tenderhq/tender/internal/mesos/v1/master"
	quotav1 "github.com/tenderhq/tender/internal/mesos/v1/quota"
)

// readCall reads a call, and how its answer is wanted.
func readCall(r request, call proto.Message) (codec.Encoding, error) {
	encoding, body, err := codec.ReadBody(r.w, r.r, callBytesMax)
	if err != nil {
		return 0, err
	}
	answer, ok := codec.AnswerEncoding(r.r.Header)
	if !ok && !codec.Accepts(r.r.Header, codec.RecordIO) {
		return 0, codec.Refuse(http.StatusNotAcceptable, "Expecting 'Accept' to allow application/json or application/x-protobuf")
	}
	if err := encoding.Unmarshal(body, call); err != nil {
		return 0, codec.Refuse(http.StatusBadRequest, "Failed to parse body into Call protobuf: %v", err)
	}
	return answer, nil
}

// writeAnswer answers a call with a message.
func writeAnswer(r request, encoding codec.Encoding, response proto.Message) error {
	text, err := encoding.Marshal(response)
	if err != nil {
		return err
	}
	r.w.Header().Set("Content-Type", encoding.ContentType())
	_, _ = r.w.Write(text) // a client that has gone needs no answer
	return nil
}

// serveCall answers /api/v1.
func (o *Operator) serveCall(r request) error {
	call := new(masterv1.Call)
	answer, err := readCall(r, call)
	if err != nil {
		return err
	}
	if call.GetType() == masterv1.Call_SUBSCRIBE {
		return o.subscribe(r, answer)
	}
	if act, is := actions[call.GetType()]; is {
		return r.do(act, call)
	}
	response, err := o.read(r.r.Context(), r, call)
	if err != nil {
		return err
	}
	return writeAnswer(r, answer, response)
}

// read answers a call that changes nothing.
func (o *Operator) read(ctx context.Context, r request, call *masterv1.Call) (*masterv1.Response, error) {
	response := new(masterv1.Response)
	if name, is := masterv1.Response_Type_value[call.GetType().String()]; is {
		response.Type = masterv1.Response_Type(name).Enum()
	}
	switch call.GetType() {
	case masterv1.Call_GET_HEALTH:
		response.GetHealth = &masterv1.Response_GetHealth{Healthy: proto.Bool(true)}
	case masterv1.Call_GET_FLAGS:
		flags, err := r.leaderFlags()
		if err != nil {
			return nil, err
		}
		response.GetFlags = &masterv1.Response_GetFlags{Flags: flagsOf(flags)}
	case masterv1.Call_GET_VERSION:
		response.GetVersion = &masterv1.Response_GetVersion{VersionInfo: &mesosv1.VersionInfo{Version: text(mesos.Version)}}
	case masterv1.Call_GET_LOGGING_LEVEL:
		response.GetLoggingLevel = &masterv1.Response_GetLoggingLevel{Level: proto.Uint32(0)}
	case masterv1.Call_GET_OPERATIONS:
		operations, err := r.operationsOf(ctx, nil)
		if err != nil {
			return nil, err
		}
		response.GetOperations = &masterv1.Response_GetOperations{Operations: operations}
	case masterv1.Call_GET_MASTER:
		response.GetMaster = &masterv1.Response_GetMaster{
			MasterInfo: translate.MasterInfo(o.config.Address), StartTime: proto.Float64(seconds(o.began)), ElectedTime: proto.Float64(seconds(o.began)),
		}
	case masterv1.Call_LIST_FILES:
		infos, err := o.listFiles(r, call.GetListFiles().GetPath())
		if err != nil {
			return nil, err
		}
		response.ListFiles = &masterv1.Response_ListFiles{FileInfos: infos}
	case masterv1.Call_READ_FILE:
		asked := call.GetReadFile()
		data, size, err := r.readFile(asked.GetPath(), int64(asked.GetOffset()), asked.Length)
		if err != nil {
			return nil, err
		}
		response.ReadFile = &masterv1.Response_ReadFile{Size: proto.Uint64(uint64(size)), Data: data}
	default:
		return o.readLists(r, call, response)
	}
	return response, nil
}

// list answers a call from lists of the leader.
type list struct {
	want parts
	show func(s *state, to *masterv1.Response)
}

// lists are those answers, by call.
func (o *Operator) lists() map[masterv1.Call_Type]list {
	return map[masterv1.Call_Type]list{
		masterv1.Call_GET_STATE:      {snapshot, func(s *state, to *masterv1.Response) { to.GetState = s.getState() }},
		masterv1.Call_GET_AGENTS:     {agents, func(s *state, to *masterv1.Response) { to.GetAgents = s.getAgents() }},
		masterv1.Call_GET_FRAMEWORKS: {agents | frameworks | offers, func(s *state, to *masterv1.Response) { to.GetFrameworks = s.getFrameworks() }},
		masterv1.Call_GET_TASKS:      {tasks, func(s *state, to *masterv1.Response) { to.GetTasks = s.getTasks() }},
		masterv1.Call_GET_EXECUTORS:  {executors, func(s *state, to *masterv1.Response) { to.GetExecutors = s.getExecutors() }},
		masterv1.Call_GET_ROLES:      {frameworks | roles, func(s *state, to *masterv1.Response) { to.GetRoles = s.getRoles() }},
		masterv1.Call_GET_WEIGHTS: {roles, func(s *state, to *masterv1.Response) {
			to.GetWeights = &masterv1.Response_GetWeights{WeightInfos: s.weights()}
		}},
		masterv1.Call_GET_QUOTA: {roles, func(s *state, to *masterv1.Response) {
			to.GetQuota = &masterv1.Response_GetQuota{Status: &quotav1.QuotaStatus{Configs: s.quotas()}}
		}},
		masterv1.Call_GET_MAINTENANCE_SCHEDULE: {agents, func(s *state, to *masterv1.Response) {
			to.GetMaintenanceSchedule = &masterv1.Response_GetMaintenanceSchedule{Schedule: s.schedule()}
		}},
		masterv1.Call_GET_MAINTENANCE_STATUS: {agents, func(s *state, to *masterv1.Response) {
			to.GetMaintenanceStatus = &masterv1.Response_GetMaintenanceStatus{Status: s.maintenance()}
		}},
		masterv1.Call_GET_METRICS: {agents | frameworks | tasks | offers, func(s *state, to *masterv1.Response) { to.GetMetrics = o.getMetrics(s) }},
	}
}

// readLists answers a call from lists of the leader.
func (o *Operator) readLists(r request, call *masterv1.Call, response *masterv1.Response) (*masterv1.Response, error) {
	list, known := o.lists()[call.GetType()]
	if !known {
		return nil, codec.Refuse(http.StatusNotImplemented, "%s has no equivalent in Tender", call.GetType())
	}
	s, err := r.readState(list.want)
	if err != nil {
		return nil, err
	}
	list.show(s, response)
	return response, nil
}

func (o *Operator) getMetrics(s *state) *masterv1.Response_GetMetrics {
	metrics, all := o.metrics(s), new(masterv1.Response_GetMetrics)
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		all.Metrics = append(all.Metrics, &mesosv1.Metric{Name: text(name), Value: proto.Float64(metrics[name])})
	}
	return all
}

func (s *state) getState() *masterv1.Response_GetState {
	return &masterv1.Response_GetState{GetTasks: s.getTasks(), GetExecutors: s.getExecutors(), GetFrameworks: s.getFrameworks(), GetAgents: s.getAgents()}
}

// weights lists the weights that were set. Mesos lists no others.
func (s *state) weights() (list []*mesosv1.WeightInfo) {
	for _, role := range s.roles {
		if role.GetWeight() != 1 {
			list = append(list, &mesosv1.WeightInfo{Role: text(everything.MesosRole(api.Role(role.GetRole()))), Weight: proto.Float64(role.GetWeight())})
		}
	}
	return list
}

// quotas lists the roles that have a guarantee or a limit.
func (s *state) quotas() (list []*quotav1.QuotaConfig) {
	for _, role := range s.roles {
		guarantee, limit := amounts(role.GetGuarantee()), amounts(role.GetLimit())
		if guarantee.IsZero() && limit.IsZero() {
			continue
		}
		list = append(list, &quotav1.QuotaConfig{
			Role: text(everything.MesosRole(api.Role(role.GetRole()))), Guarantees: scalars(guarantee), Limits: scalars(limit),
		})
	}
	return list
}

func scalars(resources api.Resources) map[string]*mesosv1.Value_Scalar {
	all := make(map[string]*mesosv1.Value_Scalar)
	for _, item := range resources.Items() {
		if len(item.Ranges) == 0 && len(item.Set) == 0 {
			all[item.Name] = &mesosv1.Value_Scalar{Value: proto.Float64(item.Scalar.Float())}
		}
	}
	return all
}

func machineID(a *apiv1.AgentView) *mesosv1.MachineID {
	return &mesosv1.MachineID{Hostname: text(a.GetHostname()), Ip: text(ipOf(a))}
}

// schedule lists the windows of maintenance, each with the machines that have it.
func (s *state) schedule() *maintenancev1.Schedule {
	schedule := new(maintenancev1.Schedule)
	for _, a := range s.agents {
		if a.GetMaintenance() == nil {
			continue
		}
		u := &mesosv1.Unavailability{Start: timeInfo(a.GetMaintenance().GetStart())}
		if d := a.GetMaintenance().GetDuration().AsDuration(); d > 0 {
			u.Duration = &mesosv1.DurationInfo{Nanoseconds: proto.Int64(int64(d))}
		}
		at := slices.IndexFunc(schedule.GetWindows(), func(w *maintenancev1.Window) bool { return proto.Equal(w.GetUnavailability(), u) })
		if at < 0 {
			at = len(schedule.GetWindows())
			schedule.Windows = append(schedule.Windows, &maintenancev1.Window{Unavailability: u})
		}
		schedule.Windows[at].MachineIds = append(schedule.Windows[at].MachineIds, machineID(a))
	}
	return schedule
}

// maintenance lists the machines that drain and those that are down: drained, and in no use.
func (s *state) maintenance() *maintenancev1.ClusterStatus {
	status := new(maintenancev1.ClusterStatus)
	for _, a := range s.agents {
		switch {
		case marked(a, api.MarkDrained):
			status.DownMachines = append(status.DownMachines, machineID(a))
		case marked(a, api.MarkDraining) || a.GetMaintenance() != nil:
			status.DrainingMachines = append(status.DrainingMachines, &maintenancev1.ClusterStatus_DrainingMachine{Id: machineID(a)})
		}
	}
	return status
}
