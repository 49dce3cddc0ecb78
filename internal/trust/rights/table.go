package rights

import "strings"

// Target says what kind of objects a row is about.
type Target string

// The targets. A row about the whole cluster needs a grant without restrictions, and [Decide] answers it completely.
// For the others, the code that knows the object asks the scope.
const (
	OnCluster    Target = "cluster"
	OnAgents     Target = "agents"
	OnFrameworks Target = "frameworks"
	OnTasks      Target = "tasks"
	OnOffers     Target = "offers"
	OnRoles      Target = "roles"
	OnPrincipals Target = "principals"
	OnItself     Target = "itself"
)

// Ticket is what a ticket opens. Agents know no grants: the leader checks them, and signs what the caller may do.
type Ticket string

// The tickets.
const (
	TicketToRead Ticket = "read" // to read output and files of a task, or what an agent says of itself
	TicketToExec Ticket = "exec" // to run commands inside a task
)

// Row says who may make a call: one method of gRPC, one route of HTTP, or one message of Raft.
type Row struct {
	// Call is /SERVICE/METHOD, or where a route is served and its pattern, such as "master GET /metrics", or a message
	// between masters, such as "raft RequestVote".
	Call string
	// Verb is what a principal must be granted; None: no verb gives it.
	Verb Verb
	// Or is another verb that is enough; None: there is none.
	Or Verb
	// Action is the name by which this row alone can be granted; "": it can't be.
	Action string
	// On says what kind of objects the call is about.
	On Target
	// Kinds need no grant; if Nobody is among them, nobody does.
	Kinds []Kind
	// Own: a principal that may run frameworks may do it to what belongs to it.
	Own bool
	// Changes: the call changes something, so it is written into the audit log.
	Changes bool
	// Page: the page has a form for it, so it may also be done by a browser's cookie.
	Page bool
	// Ticket is what a ticket of the leader must open so that an agent answers; "": no ticket helps.
	Ticket Ticket
	// Check says for people what else is checked; "": nothing.
	Check string
}

const (
	scheduler = "/tender.v1.SchedulerService/"
	agents    = "/tender.v1.AgentService/"
	operator  = "/tender.v1.OperatorService/"
	quorum    = "/tender.v1.RaftService/"
	store     = "/tender.v1.StoreService/"
	masters   = "/tender.v1.MasterService/"
	allocator = "/tender.v1.AllocatorService/"
	executor  = "/tender.v1.ExecutorService/"
	jobs      = "/tender.v1.JobService/"
	watching  = "/tender.v1.WatchService/"
	trusting  = "/tender.v1.TrustService/"
	health    = "/grpc.health.v1.Health/"
)

var (
	everybody  = []Kind{Nobody}
	members    = []Kind{Master, Agent, Framework, Person}
	principals = []Kind{Master, Framework, Person}
	cookies    = []Kind{Person} // nobody else looks with a browser
	masterOnly = []Kind{Master}
)

const (
	ownStore   = "the framework is the principal's own"
	ownTicket  = "the ticket is for whom the certificate names, for this agent and for what is asked for"
	ownRaft    = "the ID is the certificate's; the cluster and its epoch are ours; as long as a leader is heard, nobody else is but the members of the quorum"
	ownVote    = ownRaft + "; who was removed from the quorum, or never was in it, is given no vote"
	jobManager = "the job's role is granted; the job manager decides, by what the master that forwards the call says of the caller (R61)"
)

// Table has a row for every call. A call without a row is denied to everybody.
var Table = []Row{
	{Call: scheduler + "Session", Verb: Run, On: OnRoles, Check: "each role of the framework is granted; a known ID or standby name is the principal's own (R6)"},
	{Call: agents + "Session", On: OnItself, Kinds: []Kind{Agent}, Check: "the nonce is the certificate's (R7)"},

	{Call: operator + "GetCluster", On: OnCluster, Kinds: principals},
	{Call: operator + "ListMasters", On: OnCluster, Kinds: principals},
	{Call: operator + "ListRoles", On: OnRoles, Kinds: principals},
	{Call: operator + "CheckConstraint", On: OnItself, Kinds: principals},
	{Call: operator + "ListAgents", Verb: View, Action: "list-agents", On: OnAgents, Own: true, Check: "addresses only of agents that it may view"},
	{Call: operator + "ListFrameworks", Verb: View, Action: "list-frameworks", On: OnFrameworks, Own: true, Check: "only those that it may view"},
	{Call: operator + "ListTasks", Verb: View, Action: "list-tasks", On: OnTasks, Kinds: []Kind{Master}, Own: true,
		Check: "only those that it may view; environments only for their owner and admins"},
	{Call: operator + "GetTask", Verb: View, Action: "list-tasks", On: OnTasks, Own: true, Check: "as for lists of tasks"},
	{Call: operator + "ListOffers", Verb: View, Action: "list-offers", On: OnOffers, Own: true, Check: "only those that it may view"},
	{Call: operator + "ListExecutors", Verb: View, Action: "list-executors", On: OnTasks, Own: true, Check: "only those that it may view"},
	{Call: operator + "ListOperations", Verb: View, Action: "list-operations", On: OnTasks, Own: true, Check: "only those that it may view"},
	{Call: operator + "ListUsage", Verb: View, Action: "list-usage", On: OnFrameworks, Own: true,
		Check: "only of frameworks that it may view; what is summed as others counts as theirs as far as it is told apart"},
	{Call: operator + "Explain", Verb: View, Action: "explain", On: OnFrameworks, Own: true},
	{Call: operator + "KillTask", Verb: Operate, Action: "kill-task", On: OnTasks, Own: true, Changes: true, Page: true},
	{Call: operator + "RemoveFramework", Verb: Operate, Action: "remove-framework", On: OnFrameworks, Changes: true, Page: true},
	{Call: operator + "MarkAgent", Verb: Operate, Action: "mark-agent", On: OnAgents, Changes: true, Page: true, Check: "gone and remove need admin"},
	{Call: operator + "SetMaintenance", Verb: Operate, Action: "set-maintenance", On: OnAgents, Changes: true, Page: true},
	{Call: operator + "Reserve", Verb: Admin, Action: "reserve", On: OnAgents, Changes: true, Check: "the role and the agent are granted"},
	{Call: operator + "SetRole", Verb: Admin, Action: "set-role", On: OnRoles, Changes: true, Page: true},

	{Call: operator + "WhoAmI", On: OnItself, Kinds: members},
	{Call: operator + "CanI", On: OnItself, Kinds: members},
	{Call: operator + "ListPrincipals", Verb: View, Action: "list-principals", On: OnCluster},
	{Call: operator + "Grant", Verb: Admin, On: OnPrincipals, Changes: true, Check: "nobody gives more than he has"},
	{Call: operator + "Revoke", Verb: Admin, On: OnPrincipals, Changes: true, Check: "nobody takes what he could not give, or ends himself"},
	{Call: operator + "ListChanges", Verb: Admin, Action: "list-changes", On: OnCluster},

	{Call: operator + "SetSecret", Verb: Admin, Action: "set-secret", On: OnRoles, Changes: true},
	{Call: operator + "ListSecrets", Verb: View, Action: "list-secrets", On: OnRoles, Check: "only those of roles that it may view; nobody is told a value"},
	{Call: operator + "RemoveSecret", Verb: Admin, Action: "remove-secret", On: OnRoles, Changes: true},

	{Call: operator + "GetReadTicket", Verb: View, Action: "read-task", On: OnTasks, Own: true,
		Check: "the task, or all of the framework; for an agent's own state and flags the agent"},
	{Call: operator + "GetExecTicket", Verb: Operate, Action: "exec", On: OnTasks, Own: true, Changes: true, Page: true, Check: "the task; for an agent's log level the agent"},

	{Call: operator + "CreateToken", Verb: Admin, Action: "create-token", On: OnCluster, Changes: true,
		Check: "nobody gives more than he has: one for a master, or for a principal that has nothing, needs admin"},
	{Call: operator + "ListTokens", Verb: Admin, Action: "list-tokens", On: OnCluster},
	{Call: operator + "GetAuthority", Verb: View, Action: "get-authority", On: OnCluster},
	{Call: operator + "RotateAuthority", Verb: Admin, Action: "rotate-authority", On: OnCluster, Changes: true, Check: "one of one's own needs admin"},
	{Call: operator + "SignHosts", Verb: Admin, Action: "sign-hosts", On: OnCluster, Changes: true, Check: "the certificate has the caller's own name besides"},
	{Call: operator + "RevokeToken", Verb: Admin, Action: "revoke-token", On: OnCluster, Changes: true},

	{Call: trusting + "Sign", On: OnItself, Kinds: everybody, Check: "a token, or the certificate that is renewed"},

	{Call: quorum + "ListPeers", Verb: View, Action: "list-peers", On: OnCluster, Kinds: []Kind{Master}},
	{Call: quorum + "StateHash", Verb: View, Action: "state-hash", On: OnCluster, Kinds: []Kind{Master}},
	{Call: quorum + "AddPeer", Verb: Admin, Action: "add-peer", On: OnCluster, Kinds: []Kind{Master}, Changes: true},
	{Call: quorum + "RemovePeer", Verb: Admin, Action: "remove-peer", On: OnCluster, Changes: true},
	{Call: quorum + "TransferLeader", Verb: Admin, Action: "transfer-leader", On: OnCluster, Changes: true},
	{Call: quorum + "SaveSnapshot", Verb: Admin, Action: "save-snapshot", On: OnCluster, Changes: true},

	{Call: store + "Get", Verb: Run, On: OnFrameworks, Check: ownStore},
	{Call: store + "Write", Verb: Run, On: OnFrameworks, Check: ownStore},
	{Call: store + "List", Verb: Run, On: OnFrameworks, Check: ownStore},
	{Call: store + "Watch", Verb: Run, On: OnFrameworks, Check: ownStore},

	{Call: jobs + "SubmitJob", Verb: Run, Action: "submit-job", On: OnRoles, Changes: true, Page: true, Check: jobManager},
	{Call: jobs + "UpdateJob", Verb: Run, Action: "update-job", On: OnRoles, Changes: true, Page: true, Check: jobManager},
	{Call: jobs + "RollbackJob", Verb: Run, Action: "rollback-job", On: OnRoles, Changes: true, Page: true, Check: jobManager},
	{Call: jobs + "RunJobNow", Verb: Run, Action: "run-job-now", On: OnRoles, Changes: true, Page: true, Check: jobManager},
	{Call: jobs + "StopJob", Verb: Run, Or: Operate, Action: "stop-job", On: OnRoles, Changes: true, Page: true, Check: jobManager},
	{Call: jobs + "DeleteJob", Verb: Run, Action: "delete-job", On: OnRoles, Changes: true, Check: jobManager},
	{Call: jobs + "PlanJob", Verb: View, Or: Run, Action: "list-jobs", On: OnRoles, Check: jobManager},
	{Call: jobs + "ListJobs", Verb: View, Or: Run, Action: "list-jobs", On: OnRoles, Check: jobManager},
	{Call: jobs + "GetJob", Verb: View, Or: Run, Action: "list-jobs", On: OnRoles, Check: jobManager},
	{Call: jobs + "WatchJob", Verb: View, Or: Run, Action: "list-jobs", On: OnRoles, Check: jobManager},
	{Call: jobs + "WatchJobs", Verb: View, Or: Run, Action: "list-jobs", On: OnRoles, Check: jobManager},
	{Call: jobs + "GetJobHistory", Verb: View, Or: Run, Action: "list-jobs", On: OnRoles, Check: jobManager},

	{Call: watching + "Watch", Verb: View, Action: "watch", On: OnTasks, Kinds: masterOnly, Own: true, Check: "only what the lists show to the caller"},
	{Call: watching + "ListEvents", Verb: View, Action: "list-events", On: OnTasks, Kinds: masterOnly, Own: true, Check: "only of what the lists show to the caller"},

	{Call: masters + "Announce", On: OnItself, Kinds: []Kind{Master}, Check: "the ID is the certificate's"},
	{Call: masters + "Leader", On: OnCluster, Kinds: members},

	{Call: allocator + "Session", Verb: Admin, Action: "allocate", On: OnCluster, Kinds: []Kind{Master},
		Check: "masters call it at an allocator of one's own; it needs the grant, as a framework's principal"},
	{Call: executor + "Session", On: OnItself, Check: "served by agents on a unix socket: by the executor's token (R32)"},

	{Call: health + "Check", On: OnCluster, Kinds: everybody, Check: "tells no address"},
	{Call: health + "List", On: OnCluster, Kinds: everybody, Check: "tells no address"},
	{Call: health + "Watch", On: OnCluster, Kinds: everybody, Check: "tells no address"},
	{Call: "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Verb: Admin, Action: "reflect", On: OnCluster},
	{Call: "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Verb: Admin, Action: "reflect", On: OnCluster},

	{Call: "master /v1/", On: OnCluster, Kinds: everybody, Check: "each method as by gRPC"},
	{Call: "master GET /metrics", Verb: View, Action: "read-metrics", On: OnCluster, Kinds: []Kind{Master}},
	{Call: "master GET /v1/watch", Verb: View, Action: "watch", On: OnTasks, Kinds: masterOnly, Own: true, Check: "only what the lists show to the caller"},
	{Call: "master GET /v1/flags", Verb: View, Action: "read-flags", On: OnCluster, Check: "secret ones have no value"},
	{Call: "master GET /v1/log", Verb: Admin, Action: "read-log", On: OnCluster},
	{Call: "master GET /v1/log-level", Verb: View, Action: "log-level", On: OnCluster},
	{Call: "master PUT /v1/log-level", Verb: Operate, Action: "set-log-level", On: OnCluster, Changes: true},
	{Call: "master GET /healthz", On: OnCluster, Kinds: everybody, Check: "tells no address"},
	{Call: "master GET /readyz", On: OnCluster, Kinds: everybody, Check: "tells no address to nobody"},
	{Call: "master /debug/pprof/", Verb: Admin, Action: "debug", On: OnCluster},
	{Call: "master /debug/pprof/profile", Verb: Admin, Action: "debug", On: OnCluster},
	{Call: "master /debug/pprof/trace", Verb: Admin, Action: "debug", On: OnCluster},
	{Call: "master /debug/pprof/symbol", Verb: Admin, Action: "debug", On: OnCluster},

	{Call: "page files", On: OnCluster, Kinds: everybody, Check: "style, script and icon; tell nothing of the cluster"},
	{Call: "page GET /login", On: OnCluster, Kinds: everybody, Check: "tells nothing of the cluster"},
	{Call: "page POST /login", On: OnItself, Kinds: everybody, Check: "an operator's token; the page that sends it is the listener's own"},
	{Call: "page POST /logout", On: OnItself, Kinds: cookies, Check: "the page that sends it is the listener's own"},
	{Call: "page /", On: OnCluster, Kinds: cookies, Check: "each call as by gRPC, by a certificate or a cookie; a cookie changes only what the page has a form for (R72)"},

	{Call: "raft Ask", On: OnCluster, Kinds: masterOnly, Check: "the ID is the certificate's"},
	{Call: "raft AppendEntries", On: OnCluster, Kinds: masterOnly, Check: ownRaft},
	{Call: "raft InstallSnapshot", On: OnCluster, Kinds: masterOnly, Check: ownRaft},
	{Call: "raft RequestPreVote", On: OnCluster, Kinds: masterOnly, Check: ownVote},
	{Call: "raft RequestVote", On: OnCluster, Kinds: masterOnly, Check: ownVote},
	{Call: "raft TimeoutNow", On: OnCluster, Kinds: masterOnly, Check: ownRaft + "; who leads goes on"},

	{Call: "master DNS", On: OnTasks, Kinds: everybody, Check: "only with --dns: names of frameworks, agents and of tasks with ports, and where these are reached"},

	{Call: "agent GET /healthz", On: OnCluster, Kinds: everybody},
	{Call: "agent GET /readyz", On: OnCluster, Kinds: everybody},
	{Call: "agent GET /metrics", Verb: View, Action: "read-metrics", On: OnCluster, Kinds: []Kind{Master},
		Check: "agents are told who may (R47)"},
	{Call: "agent GET /debug/pprof/", On: OnAgents, Ticket: TicketToExec, Check: ownTicket},
	{Call: "agent GET /debug/pprof/profile", On: OnAgents, Ticket: TicketToExec, Check: ownTicket},
	{Call: "agent GET /debug/pprof/trace", On: OnAgents, Ticket: TicketToExec, Check: ownTicket},
	{Call: "agent GET /debug/pprof/symbol", On: OnAgents, Ticket: TicketToExec, Check: ownTicket},
	{Call: "agent GET /v1/logs/{framework}/{task}/{stream}", On: OnTasks, Ticket: TicketToRead, Check: ownTicket},
	{Call: "agent GET /v1/output/{framework}/{task}", On: OnTasks, Ticket: TicketToRead, Check: ownTicket},
	{Call: "agent GET /v1/files/{framework}/{task}/{path...}", On: OnTasks, Ticket: TicketToRead, Check: ownTicket},
	{Call: "agent GET /v1/state", On: OnAgents, Kinds: []Kind{Master}, Ticket: TicketToRead, Check: ownTicket},
	{Call: "agent GET /v1/executors", On: OnAgents, Kinds: []Kind{Master}, Ticket: TicketToRead, Check: ownTicket},
	{Call: "agent GET /v1/containers", On: OnAgents, Kinds: []Kind{Master}, Ticket: TicketToRead, Check: ownTicket},
	{Call: "agent POST /v1/images/prune", On: OnAgents, Ticket: TicketToExec, Changes: true, Check: ownTicket},
	{Call: "agent GET /v1/flags", On: OnAgents, Kinds: []Kind{Master}, Ticket: TicketToRead, Check: ownTicket},
	{Call: "agent GET /v1/log", On: OnAgents, Ticket: TicketToExec, Check: ownTicket},
	{Call: "agent GET /v1/log-level", On: OnAgents, Kinds: []Kind{Master}, Ticket: TicketToRead, Check: ownTicket},
	{Call: "agent PUT /v1/log-level", On: OnAgents, Ticket: TicketToExec, Changes: true, Check: ownTicket},
	{Call: "agent POST /v1/exec/{framework}/{task}", On: OnTasks, Ticket: TicketToExec, Changes: true, Check: ownTicket},
}

// RowOf returns the row of a call; false: there is none, and nobody may make the call.
func RowOf(call string) (Row, bool) {
	row, known := byCall[call]
	return row, known
}

// byCall is the table by call; it is never changed.
var byCall = func() map[string]Row {
	rows := make(map[string]Row, len(Table))
	for _, row := range Table {
		rows[row.Call] = row
	}
	return rows
}()

// Does returns what the row is about, in words that follow "may not".
func (r Row) Does() string {
	if r.Action != "" {
		return strings.ReplaceAll(r.Action, "-", " ")
	}
	return "call " + r.Call
}

// kindsText names those who need no grant.
func (r Row) kindsText() string {
	if len(r.Kinds) == 0 {
		return "nobody that this listener knows"
	}
	names := make([]string, len(r.Kinds))
	for i, kind := range r.Kinds {
		names[i] = string(kind) + "s"
	}
	return strings.Join(names, ", ")
}
