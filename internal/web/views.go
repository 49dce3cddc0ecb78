package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/internal/words"
)

// roles is the tree of the roles, each with what it has and may have, and the frameworks in it.
func (s *Server) roles(r *http.Request) (page, error) {
	shown := table{
		columns: []string{"Role", "Weight", "Priority", "Share", "Allocated", "Guarantee", "Limit", "Reserved", "Frameworks", "Change"},
		empty:   "No role was set, subscribed to or used yet.", next: "tender weight eng 2",
	}
	one, err := look(r.Context())
	if err != nil {
		return page{}, err
	}
	for _, role := range one.roles {
		name := role.GetRole()
		indent := strings.Repeat("\u2003", strings.Count(name, "/"))
		shown.rows = append(shown.rows, row{name, []cell{
			text(indent + name), number(short(role.GetWeight())), number(fmt.Sprint(role.GetPriority())), number(percent(role.GetDominantShare(), 1)),
			text(resourcesText(role.GetAllocated())), text(resourcesText(role.GetGuarantee())), text(resourcesText(role.GetLimit())),
			text(resourcesText(role.GetReserved())), to(grouped(int(role.GetFrameworks())), "/frameworks?role="+url.QueryEscape(name)),
			to("Set up", "/do/role?role="+url.QueryEscape(name)),
		}})
	}
	return page{
		title: "Roles", nav: "/roles", command: "tender get roles",
		blocks: []block{{key: "list", title: "Roles", note: "a tree: a limit holds for a role and all below it", body: tableView(shown), wide: true}},
	}, nil
}

// offers are the open offers.
func (s *Server) offers(r *http.Request) (page, error) {
	one, err := look(r.Context())
	if err != nil {
		return page{}, err
	}
	open, shown := windowOf(r, one.offers)
	shown = table{
		columns: []string{"Offer", "To", "Role", "Of", "Resources", "Made", "Expires"}, place: shown.place, before: shown.before, more: shown.more,
		empty: "No offer is open. Offers are made when a framework wants something that is free.", next: "tender get frameworks",
	}
	for _, offer := range open {
		shown.rows = append(shown.rows, row{offer.GetId(), []cell{
			text(offer.GetId()), to(cmp.Or(offer.GetFrameworkName(), offer.GetFrameworkId()), frameworkPath(offer.GetFrameworkId())),
			text(offer.GetRole()), to(offer.GetHostname(), agentPath(offer.GetAgentId())), text(resourcesText(offer.GetResources())),
			since(timeOf(offer.GetSince())), since(timeOf(offer.GetExpires())),
		}})
	}
	return page{
		title: "Offers", nav: "/offers", command: "tender get offers",
		blocks: []block{{key: "list", title: "Open offers", body: tableView(shown), wide: true}},
	}, nil
}

// masters are the masters of the quorum.
func (s *Server) masters(r *http.Request) (page, error) {
	if one, _ := look(r.Context()); !one.then.IsZero() {
		return s.mastersThen(r, one), nil
	}
	list, err := s.operator.ListMasters(r.Context(), &apiv1.ListRequest{})
	if err != nil {
		return page{}, err
	}
	newest := uint64(0)
	for _, master := range list.GetItems() {
		newest = max(newest, master.GetAppliedIndex())
	}
	shown := table{columns: []string{"Master", "Is", "Since", "gRPC", "HTTP", "Raft", "Entries behind", "Snapshot", "Up to entry", "Size", "Saved", "Allocator", "Version", "Why"}}
	for _, master := range list.GetItems() {
		behind := ""
		if master.GetState() != "unreachable" {
			behind = grouped(int(newest - master.GetAppliedIndex()))
		}
		upTo, size, snapshot := "", "", master.GetSnapshot()
		if snapshot.GetMade() != nil {
			upTo, size = grouped(int(snapshot.GetIndex())), bytesText(snapshot.GetBytes())
		}
		shown.rows = append(shown.rows, row{master.GetId(), []cell{
			text(master.GetId()), {text: master.GetState(), class: masterClass(master)}, since(timeOf(master.GetSince())), text(master.GetGrpcAddress()), text(master.GetHttpAddress()),
			text(master.GetRaftAddress()), number(behind), since(timeOf(snapshot.GetMade())), number(upTo), number(size), since(timeOf(snapshot.GetSaved())), text(master.GetAllocator()), text(master.GetVersion()), text(master.GetWhy()),
		}})
	}
	all := page{
		title: "Masters", nav: "/masters", command: "tender get masters",
		blocks: []block{{key: "list", title: "Masters", body: tableView(shown), wide: true, command: "tender raft peers"}, s.electionsUntil(r.Context(), s.config.Clock())},
	}
	authority, err := s.operator.GetAuthority(r.Context(), &apiv1.GetAuthorityRequest{})
	if err == nil {
		all.blocks = append(all.blocks, block{key: "certificates", title: "Certificates", body: tableView(certificates(authority)), wide: true, command: "tender ca status"})
	}
	return all, nil
}

// certificates lists who has which certificate until when.
func certificates(authority *apiv1.AuthorityView) table {
	shown := table{columns: []string{"Whose", "Ends", "Shown"}, empty: "Nobody has shown a certificate to this leader."}
	items := authority.GetItems()
	for _, one := range items[:min(len(items), windowRows)] {
		shown.rows = append(shown.rows, row{one.GetIdentity(), []cell{text(one.GetIdentity()), since(timeOf(one.GetEnds())), since(timeOf(one.GetShown()))}})
	}
	return shown
}

// jobList is the list of the jobs.
func (s *Server) jobList(r *http.Request) (page, error) {
	if one, _ := look(r.Context()); !one.then.IsZero() {
		return s.jobListThen(r, one)
	}
	query := r.URL.Query()
	list, err := s.jobs.ListJobs(r.Context(), &apiv1.ListJobsRequest{Prefix: query.Get("q"), All: query.Get("all") != "", Limit: windowRows, PageToken: query.Get("page")})
	if err != nil && noManager(err) {
		return page{
			title: "Jobs", nav: "/jobs", command: "tender job list",
			blocks: []block{{key: "list", title: "Jobs", body: tableView(table{empty: sentence(sentenceOf(err)) + ".", next: "tender jobs"}), wide: true}},
		}, nil
	}
	if err != nil {
		return page{}, err
	}
	shown := table{
		columns: []string{"Job", "Type", "Is", "Role", "For", "Version", "Running", "Waiting", "Done", "Failed", "Next run", "Why"},
		empty:   "There are no jobs" + suchAs(query) + ".", next: "tender job run FILE", more: further(r, list.GetNextPageToken()),
	}
	for _, job := range list.GetItems() {
		var running, waiting, done, failed int32
		for _, sub := range job.GetSubJobs() {
			running, waiting, done, failed = running+sub.GetRunning(), waiting+sub.GetWaiting()+sub.GetPausing(), done+sub.GetDone(), failed+sub.GetFailed()
		}
		shown.rows = append(shown.rows, row{job.GetName(), []cell{
			to(job.GetName(), "/jobs/"+url.PathEscape(job.GetName())), text(job.GetType()), phaseOf(job), text(job.GetRole()), text(job.GetOwner()), number(fmt.Sprint(job.GetVersion())),
			number(fmt.Sprint(running)), number(fmt.Sprint(waiting)), number(fmt.Sprint(done)),
			number(fmt.Sprint(failed)), since(timeOf(job.GetNextRun())), inShort(strings.Join(reasonsOf(job), " ")),
		}})
	}
	return page{
		title: "Jobs", nav: "/jobs", command: "tender job list",
		blocks: []block{{
			key: "list", title: "Jobs", wide: true, actions: []link{does("run-job")}, links: []link{{"those that have ended too", "/jobs?all=1"}},
			body: listView(shown, filter{"/jobs", query.Get("q"), "Jobs whose name begins with"}),
		}},
	}, nil
}

// reasonsOf says in sentences why a job is as it is, and why its tasks wait.
func reasonsOf(job *apiv1.JobStatus) (lines []string) {
	for _, line := range append([]string{job.GetWhy()}, job.GetWaits()...) {
		if line = strings.TrimSuffix(line, ".") + "."; line != "." && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// noManager reports whether a call has failed because no job manager runs.
func noManager(err error) bool {
	return wire.Error(err).Kind == api.NotFound || wire.Error(err).Kind == api.Unavailable
}

// phaseOf says in which phase a job is. One that should run is not well if there is a reason why it does not.
func phaseOf(job *apiv1.JobStatus) cell {
	class := phaseClass(job.GetPhase())
	if job.GetPhase() == "RUNNING" && job.GetWhy() != "" {
		class = "warn"
	}
	return cell{text: job.GetPhase(), class: class}
}

func phaseClass(phase string) string {
	switch phase {
	case "RUNNING", "SUCCEEDED":
		return "good"
	case "FAILED", "FAILING":
		return "bad"
	default:
		return "warn"
	}
}

// job is one job, its groups of tasks, its tasks and its versions.
func (s *Server) job(r *http.Request) (page, error) {
	if one, _ := look(r.Context()); !one.then.IsZero() {
		return s.jobAsThen(r, one)
	}
	job, err := s.jobs.GetJob(r.Context(), &apiv1.GetJobRequest{Name: r.PathValue("name")})
	if err != nil {
		return page{}, err
	}
	name := job.GetName()
	facts := []field{
		{"Is", phaseOf(job)}, {"Why", text(strings.Join(reasonsOf(job), " "))},
		{"Type", text(job.GetType())}, {"Role", text(job.GetRole())}, {"For", text(job.GetOwner())}, {"Version", text(fmt.Sprint(job.GetVersion()))},
		{"Submitted", since(timeOf(job.GetSubmitted()))}, {"Ended", since(timeOf(job.GetEnded()))}, {"Next run", since(timeOf(job.GetNextRun()))},
	}
	if roll := job.GetRoll(); roll != nil {
		facts = append(facts, field{"Changes to", text(fmt.Sprintf("version %d: %d of %d changed, %d tried", roll.GetTo(), roll.GetChanged(), roll.GetOf(), roll.GetTrying()))})
	}
	groups := table{columns: []string{"Group", "Is", "Tasks", "Running", "Waiting", "Done", "Failed"}, empty: "It has no tasks."}
	for _, sub := range job.GetSubJobs() {
		groups.rows = append(groups.rows, row{sub.GetName(), []cell{
			text(sub.GetName()), text(sub.GetState()), number(fmt.Sprint(sub.GetTasks())), number(fmt.Sprint(sub.GetRunning())),
			number(fmt.Sprint(sub.GetWaiting() + sub.GetPausing())), number(fmt.Sprint(sub.GetDone())), number(fmt.Sprint(sub.GetFailed())),
		}})
	}
	tasks := table{columns: []string{"Index", "Attempt", "Version", "Task", "Is", "Since", "On", "Failures", "Why"}, empty: "None of its tasks has an agent now."}
	for _, task := range job.GetTasks() {
		href := "/tasks/" + url.PathEscape(job.GetFrameworkId()) + "/" + url.PathEscape(task.GetTaskId())
		tasks.rows = append(tasks.rows, row{task.GetTaskId(), []cell{
			text(fmt.Sprintf("%s %d", task.GetSubJob(), task.GetIndex())), number(fmt.Sprint(task.GetAttempt())), number(fmt.Sprint(task.GetVersion())),
			to(task.GetTaskId(), href), {text: task.GetState(), class: gradeOf(&apiv1.TaskView{State: task.GetState()})}, since(timeOf(task.GetSince())),
			to(task.GetHostname(), agentPath(task.GetAgentId())), number(fmt.Sprint(task.GetFailures())), text(task.GetWhy()),
		}})
	}
	notes := table{columns: []string{"When", "What"}, empty: "Nothing has happened to it."}
	for i, note := range slices.Backward(job.GetNotes()) {
		notes.rows = append(notes.rows, row{fmt.Sprint(i), []cell{since(timeOf(note.GetAt())), text(note.GetText())}})
	}
	present, _ := s.presentOf(r.Context(), name) // without it there are fewer blocks
	actions := []link{does("update-job", "job", name), does("rollback-job", "job", name), does("stop-job", "job", name)}
	if job.GetType() == "cron" {
		actions = append([]link{does("run-job-now", "job", name)}, actions...)
	}
	if mayScale(job) {
		actions = append([]link{does("scale-job", "job", name)}, actions...)
	}
	return page{
		title: name, nav: "/jobs", command: "tender job status " + words.Quote(name),
		blocks: slices.Concat([]block{
			{key: "facts", title: "Job " + name, body: fieldsView(facts), actions: actions},
			{key: "groups", title: "Its groups", body: tableView(groups)},
		}, jobBlocks(job, present.GetJob(), s.config.Clock()), []block{
			{key: "tasks", title: "Its tasks", body: tableView(tasks), wide: true},
			{key: "notes", title: "What has happened", body: tableView(notes)},
			{key: "versions", title: "Its versions", body: tableView(s.versions(r.Context(), name, s.config.Clock())), command: "tender job history " + words.Quote(name)},
		}),
	}, nil
}

// versions lists the versions of a job that are kept, and that it had at a moment.
func (s *Server) versions(ctx context.Context, name string, when time.Time) table {
	shown := table{columns: []string{"Version", "At", "For", "How", "Proven"}, empty: "No version is kept."}
	history, err := s.jobs.GetJobHistory(ctx, &apiv1.GetJobHistoryRequest{Name: name})
	if err != nil {
		shown.empty = sentenceOf(err)
	}
	for _, version := range history.GetItems() {
		if timeOf(version.GetAt()).After(when) {
			continue
		}
		proven := cell{text: "not yet", class: "soft"}
		switch {
		case version.GetBad() != "":
			proven = cell{text: version.GetBad(), class: "bad"}
		case version.GetProven():
			proven = cell{text: "proven", class: "good"}
		}
		shown.rows = append(shown.rows, row{fmt.Sprint(version.GetVersion()), []cell{
			number(fmt.Sprint(version.GetVersion())), since(timeOf(version.GetAt())), text(version.GetOwner()), text(version.GetWhy()), proven,
		}})
	}
	return shown
}

// why answers why something does not run, for whoever types a name.
func (s *Server) why(r *http.Request) (page, error) {
	name := strings.TrimSpace(r.URL.Query().Get("q"))
	shown := page{title: "Why is it not running?", nav: "/why", command: "tender explain FRAMEWORK|TASK"}
	asked := block{key: "asked", title: "Type the name of a framework, a job or a task", wide: true}
	shown.blocks = []block{asked}
	one, err := look(r.Context())
	if err != nil {
		return page{}, err
	}
	if name == "" {
		shown.blocks[0].body = listView(waiting(one), filter{"/why", "", "Name"})
		return shown, nil
	}
	if !one.then.IsZero() {
		return s.whyThen(r, one, name), nil
	}
	shown.command = "tender explain " + words.Quote(name)
	said := table{columns: []string{"Agent", "Host", "Why it is not offered, or is"}, empty: "No agent is concerned."}
	answer, err := s.operator.Explain(r.Context(), &apiv1.ExplainRequest{FrameworkId: name})
	lines := answer.GetFramework()
	if err != nil {
		if lines = s.whyElse(r.Context(), name); lines == nil {
			lines = []string{sentenceOf(err)}
		}
	}
	for _, agent := range answer.GetAgents() {
		said.rows = append(said.rows, row{agent.GetAgentId(), []cell{
			to(agent.GetAgentId(), agentPath(agent.GetAgentId())), text(agent.GetHostname()), text(agent.GetWhy()),
		}})
	}
	shown.blocks[0].body = listView(table{}, filter{"/why", name, "Name"})
	shown.blocks = append(shown.blocks, block{key: "because", title: "Because", body: sentences(lines), wide: true})
	if len(answer.GetAgents()) > 0 {
		shown.blocks = append(shown.blocks, block{key: "agents", title: "Agent by agent", body: tableView(said), wide: true},
			block{key: "decisions", title: "The latest decisions", note: "the newest first", body: tableView(decisions(answer)), wide: true})
	}
	return shown, nil
}

// whyElse says why a task or a job is not running; nil: there is none of that name.
func (s *Server) whyElse(ctx context.Context, name string) []string {
	if job, err := s.jobs.GetJob(ctx, &apiv1.GetJobRequest{Name: name}); err == nil {
		return append([]string{fmt.Sprintf("Job %s is %s.", job.GetName(), job.GetPhase())}, reasonsOf(job)...)
	}
	found, err := s.operator.ListTasks(ctx, &apiv1.ListTasksRequest{Prefix: name, All: true, Limit: 10})
	if err != nil {
		return nil
	}
	var lines []string
	if notYet := found.GetIncomplete().GetMessage(); notYet != "" && len(found.GetItems()) == 0 {
		lines = []string{sentence(notYet) + "."}
	}
	for _, task := range found.GetItems() {
		line := fmt.Sprintf("Task %s of %s is %s since %s.", task.GetId(), cmp.Or(task.GetFrameworkName(), task.GetFrameworkId()), task.GetState(),
			timeOf(task.GetSince()).UTC().Format("2006-01-02 15:04:05 MST"))
		lines = append(lines, strings.TrimSpace(line+" "+whyOf(task)))
	}
	return lines
}

// decisions lists what has become of the latest offers of a framework.
func decisions(answer *apiv1.ExplainResponse) table {
	shown := table{columns: []string{"When", "Offer", "Of", "Resources", "What became of it"}, empty: "It was offered nothing since this leader leads."}
	for i, one := range slices.Backward(answer.GetDecisions()) {
		shown.rows = append(shown.rows, row{fmt.Sprint(i), []cell{
			since(timeOf(one.GetAt())), text(one.GetOfferId()), to(one.GetAgentId(), agentPath(one.GetAgentId())), text(resourcesText(one.GetResources())),
			text(strings.TrimSuffix(one.GetOutcome()+": "+one.GetWhy(), ": ")),
		}})
	}
	return shown
}

// access says who may what, and who has changed what.
func (s *Server) access(r *http.Request) (page, error) {
	one, _ := look(r.Context())
	past := !one.then.IsZero()
	who, err := s.operator.WhoAmI(r.Context(), &apiv1.WhoAmIRequest{})
	if err != nil {
		return page{}, err
	}
	own := []field{{"You are", text(strings.TrimSpace(who.GetKind() + " " + who.GetName()))}, {"You may", text(strings.Join(grantTexts(who.GetGrants()), "; "))}}
	principals := table{columns: []string{"Principal", "May", "Since", "Revoked", "Why"}, empty: "Nothing was granted to anybody."}
	there := one.principals
	if !past {
		list, err := s.operator.ListPrincipals(r.Context(), &apiv1.ListRequest{All: true, Limit: windowRows})
		if err != nil {
			principals.empty = sentenceOf(err)
		}
		there = list.GetItems()
	}
	for _, one := range there[:min(len(there), windowRows)] {
		principals.rows = append(principals.rows, row{one.GetName(), []cell{
			text(one.GetName()), text(strings.Join(grantTexts(one.GetGrants()), "; ")), since(timeOf(one.GetCreated())), since(timeOf(one.GetRevoked())), text(one.GetWhy()),
		}})
	}
	changes := table{columns: []string{"When", "Who", "Call", "On", "Result", "Why"}, empty: "This master was asked to change nothing."}
	audit, err := s.operator.ListChanges(r.Context(), &apiv1.ListChangesRequest{Limit: windowRows, Until: untilOf(r.URL.Query())})
	if err != nil {
		changes.empty = sentenceOf(err)
	}
	for i, one := range audit.GetItems() {
		class := "good"
		if one.GetResult() != "ok" {
			class = "warn"
		}
		changes.rows = append(changes.rows, row{fmt.Sprint(one.GetIndex(), "/", i), []cell{
			since(timeOf(one.GetAt())), text(one.GetWho()), text(one.GetCall()[strings.LastIndexByte(one.GetCall(), '/')+1:]), text(strings.Join(one.GetObjects(), ", ")),
			{text: one.GetResult(), class: class}, text(one.GetWhy()),
		}})
	}
	shown := page{
		title: "Access", nav: "/access", command: "tender whoami",
		blocks: []block{
			{key: "own", title: "You", body: fieldsView(own), wide: true},
			{key: "principals", title: "Who may what", command: "tender get principals --all", body: tableView(principals), wide: true},
			{key: "changes", title: "Who has changed what", note: "as the master knows it that was asked", command: "tender audit", body: tableView(changes), wide: true},
		},
	}
	if past { // what you may is as it is now
		shown.blocks, shown.command = shown.blocks[1:], "tender audit --until "+thenText(one.then)
	}
	return shown, nil
}

// grantTexts writes grants as people type them.
func grantTexts(grants []*apiv1.PrincipalGrant) (texts []string) {
	for _, g := range grants {
		line := g.GetVerb()
		for _, part := range [][2]string{{"role", g.GetRole()}, {"framework", g.GetFramework()}, {"agent", g.GetAgent()}, {"user", g.GetUser()}} {
			if part[1] != "" {
				line += " --" + part[0] + " " + words.Quote(part[1])
			}
		}
		texts = append(texts, line)
	}
	return texts
}
