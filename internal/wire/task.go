package wire

import (
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// TaskToProto makes the message of a task.
func TaskToProto(task api.Task) *apiv1.Task {
	return &apiv1.Task{
		Id:        clean(task.ID),
		Name:      clean(task.Name),
		Resources: ResourcesToProto(task.Resources),
		Executor:  ExecutorToProto(task.Executor),
		Command:   CommandToProto(task.Command),
		Data:      task.Data,
		KillGrace: DurationToProto(task.KillGrace),
		Labels:    cleanMap(task.Labels),
		Ports:     portsToProto(task.Ports),
		Placement: placementToProto(task.Placement),
		Group:     clean(task.Group),

		MaxCompletionTime: DurationToProto(task.MaxCompletionTime),
		Checks:            checksToProto(task.Checks),
		Limits:            limitsToProto(task.Limits),
		Image:             clean(task.Image),
		Secrets:           SecretsToProto(task.Secrets),
		KillSignal:        clean(task.KillSignal),
		Owner:             clean(task.Owner),
	}
}

// SecretsToProto makes the messages of the secrets that a task names.
func SecretsToProto(secrets []api.Secret) []*apiv1.Secret {
	var all []*apiv1.Secret
	for _, secret := range secrets {
		all = append(all, &apiv1.Secret{Name: clean(secret.ID), Env: clean(secret.Env), File: clean(secret.File)})
	}
	return all
}

func secretsFromProto(secrets []*apiv1.Secret) []api.Secret {
	var all []api.Secret
	for _, m := range secrets {
		all = append(all, api.Secret{ID: api.SecretID(m.GetName()), Env: m.GetEnv(), File: m.GetFile()})
	}
	return all
}

// limitsToProto returns nil for limits that are not set.
func limitsToProto(limits api.Limits) *apiv1.Limits {
	if limits == (api.Limits{}) {
		return nil
	}
	return &apiv1.Limits{CpusMilli: int64(limits.CPUs), MemMilli: int64(limits.Mem), Pids: limits.Pids}
}

func limitsFromProto(m *apiv1.Limits) api.Limits {
	return api.Limits{CPUs: api.Milli(m.GetCpusMilli()), Mem: api.Milli(m.GetMemMilli()), Pids: m.GetPids()}
}

func placementToProto(placement api.Placement) *apiv1.Placement {
	if placement.Level == api.PlacedUnspecified {
		return nil
	}
	return &apiv1.Placement{Level: apiv1.PlacementLevel(placement.Level), Waited: DurationToProto(placement.Waited), Idle: DurationToProto(placement.Idle)}
}

// placementFromProto treats an unknown level as none.
func placementFromProto(c *checker, m *apiv1.Placement) api.Placement {
	if level := m.GetLevel(); level != 0 && known(level, apiv1.PlacementLevel_name) {
		return api.Placement{Level: api.PlacementLevel(level), Waited: c.duration("", m.GetWaited()), Idle: c.duration("", m.GetIdle())}
	}
	return api.Placement{}
}

// TaskFromProto reads a task without checking it; api.Task.Check does that. A port above 65535 becomes 0, which Check
// refuses too.
func TaskFromProto(m *apiv1.Task) api.Task {
	c := trusting()
	return api.Task{
		ID:        api.TaskID(m.GetId()),
		Name:      m.GetName(),
		Resources: c.resources("", m.GetResources()),
		Executor:  ExecutorFromProto(m.GetExecutor()),
		Command:   CommandFromProto(m.GetCommand()),
		Data:      m.GetData(),
		KillGrace: c.duration("", m.GetKillGrace()),
		Labels:    m.GetLabels(),
		Ports:     portsFromProto(m.GetPorts()),
		Placement: placementFromProto(c, m.GetPlacement()),
		Group:     m.GetGroup(),

		MaxCompletionTime: c.duration("", m.GetMaxCompletionTime()),
		Checks:            checksFromProto(c, m.GetChecks()),
		Limits:            limitsFromProto(m.GetLimits()),
		Image:             m.GetImage(),
		Secrets:           secretsFromProto(m.GetSecrets()),
		KillSignal:        m.GetKillSignal(),
		Owner:             m.GetOwner(),
	}
}

// ExecutorToProto makes the message of an executor; nil for nil.
func ExecutorToProto(executor *api.Executor) *apiv1.Executor {
	if executor == nil {
		return nil
	}
	return &apiv1.Executor{
		Id:            clean(executor.ID),
		Command:       CommandToProto(&executor.Command),
		Resources:     ResourcesToProto(executor.Resources),
		Data:          executor.Data,
		ShutdownGrace: DurationToProto(executor.ShutdownGrace),
		Labels:        cleanMap(executor.Labels),
	}
}

// ExecutorFromProto reads an executor without checking it; api.Executor.Check does that.
func ExecutorFromProto(m *apiv1.Executor) *api.Executor {
	if m == nil {
		return nil
	}
	c := trusting()
	executor := &api.Executor{
		ID:            api.ExecutorID(m.GetId()),
		Resources:     c.resources("", m.GetResources()),
		Data:          m.GetData(),
		ShutdownGrace: c.duration("", m.GetShutdownGrace()),
		Labels:        m.GetLabels(),
	}
	if command := CommandFromProto(m.GetCommand()); command != nil {
		executor.Command = *command
	}
	return executor
}

// CommandToProto makes the message of a command; nil for nil.
func CommandToProto(command *api.Command) *apiv1.Command {
	if command == nil {
		return nil
	}
	m := &apiv1.Command{Argv: Texts(command.Argv), Shell: clean(command.Shell), Env: cleanMap(command.Env), User: clean(command.User), Dir: clean(command.Dir)}
	for _, uri := range command.URIs {
		m.Uris = append(m.Uris, &apiv1.URI{
			Source: clean(uri.Source), Name: clean(uri.Name), Sha256: clean(uri.SHA256),
			Executable: uri.Executable, Extract: uri.Extract,
		})
	}
	return m
}

// CommandFromProto reads a command without checking it; api.Command.Check does that.
func CommandFromProto(m *apiv1.Command) *api.Command {
	if m == nil {
		return nil
	}
	command := &api.Command{Argv: m.GetArgv(), Shell: m.GetShell(), Env: m.GetEnv(), User: m.GetUser(), Dir: m.GetDir()}
	for _, uri := range m.GetUris() {
		command.URIs = append(command.URIs, api.URI{
			Source: uri.GetSource(), Name: uri.GetName(), SHA256: uri.GetSha256(),
			Executable: uri.GetExecutable(), Extract: uri.GetExtract(),
		})
	}
	return command
}

func portsToProto(ports map[string]uint16) map[string]uint32 {
	if len(ports) == 0 {
		return nil
	}
	all := make(map[string]uint32, len(ports))
	for name, port := range ports { // order: irrelevant because a map is made
		all[clean(name)] = uint32(port)
	}
	return all
}

func portsFromProto(ports map[string]uint32) map[string]uint16 {
	if len(ports) == 0 {
		return nil
	}
	all := make(map[string]uint16, len(ports))
	for name, port := range ports { // order: irrelevant because a map is made
		if port > 65535 {
			port = 0
		}
		all[name] = uint16(port)
	}
	return all
}
func checksToProto(checks []api.Check) []*apiv1.Check {
	var all []*apiv1.Check
	for _, check := range checks {
		m := &apiv1.Check{
			Readiness: check.Readiness, Interval: DurationToProto(check.Interval), Timeout: DurationToProto(check.Timeout),
			Grace: DurationToProto(check.Grace), Failures: uint32(max(check.Failures, 0)), Observing: check.Observing,
		}
		switch {
		case check.Command != nil:
			m.How = &apiv1.Check_Command{Command: CommandToProto(check.Command)}
		case check.HTTP != nil:
			m.How = &apiv1.Check_Http{Http: &apiv1.HTTPCheck{Port: clean(check.HTTP.Port), Path: clean(check.HTTP.Path)}}
		case check.TCP != nil:
			m.How = &apiv1.Check_Tcp{Tcp: &apiv1.TCPCheck{Port: clean(check.TCP.Port)}}
		case check.GRPC != nil:
			m.How = &apiv1.Check_Grpc{Grpc: &apiv1.GRPCCheck{Port: clean(check.GRPC.Port), Service: clean(check.GRPC.Service)}}
		}
		all = append(all, m)
	}
	return all
}

// checksFromProto reads checks without checking them; api.Task.Check does that.
func checksFromProto(c *checker, checks []*apiv1.Check) []api.Check {
	var all []api.Check
	for _, m := range checks {
		check := api.Check{
			Readiness: m.GetReadiness(), Interval: c.duration("", m.GetInterval()), Timeout: c.duration("", m.GetTimeout()),
			Grace: c.duration("", m.GetGrace()), Failures: int(m.GetFailures()), Observing: m.GetObserving(), Command: CommandFromProto(m.GetCommand()),
		}
		switch how := m.GetHow().(type) {
		case *apiv1.Check_Http:
			check.HTTP = &api.HTTPCheck{Port: how.Http.GetPort(), Path: how.Http.GetPath()}
		case *apiv1.Check_Tcp:
			check.TCP = &api.TCPCheck{Port: how.Tcp.GetPort()}
		case *apiv1.Check_Grpc:
			check.GRPC = &api.GRPCCheck{Port: how.Grpc.GetPort(), Service: how.Grpc.GetService()}
		}
		all = append(all, check)
	}
	return all
}
