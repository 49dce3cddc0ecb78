package web

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/internal/words"
)

// The views of a moment that has passed, of what no list of the masters has: jobs, elections, audits and reasons. They
// are made of the history's events up to that moment, of the tasks of that moment, and of what is still known of the time
// each thing came.

// storyMax is how many events of the past such a view reads.
const storyMax = 5000

// until returns the events up to a moment that a query selects, the newest first, and what the master does not have.
func (s *Server) until(ctx context.Context, when time.Time, most int, query *apiv1.ListEventsRequest) (events []*apiv1.Event, gaps []string, err error) {
	query.Until = timestamppb.New(when.Add(time.Nanosecond))
	watch := apiv1.NewWatchServiceClient(s.config.Cluster)
	list := func(ctx context.Context, r *apiv1.ListEventsRequest, options ...grpc.CallOption) (*apiv1.ListEventsResponse, error) {
		page, err := watch.ListEvents(ctx, r, options...)
		gaps = page.GetGaps()
		return page, err
	}
	events, _, err = client.All(ctx, list, most, query)
	return events, gaps, err
}

// jobThen is a job as it was at a moment.
type jobThen struct {
	name, kind  string
	phase       string // "": the history does not say it
	role, owner string
	why         string
	at          time.Time
	tasks       []*apiv1.TaskView
}

// phases are the phases of jobs, as events say them.
var phases = []string{"stopping", "deleting", "failing", "succeeded", "failed", "stopped"}

// jobsThen returns the jobs that there were at a moment, by name: those of which the history tells, and those that are
// there still and came before it.
func (s *Server) jobsThen(ctx context.Context, one *copied, name string) ([]*jobThen, []string, error) {
	query := &apiv1.ListEventsRequest{Kinds: []string{"job"}, NotableOnly: true}
	if name != "" {
		query.Of = "job/" + name
	}
	events, gaps, err := s.until(ctx, one.then, storyMax, query)
	if err != nil {
		return nil, nil, err
	}
	known := map[string]*jobThen{}
	for _, event := range events {
		if known[event.GetName()] == nil {
			about := wire.EventAbout(event)
			known[event.GetName()] = &jobThen{name: event.GetName(), role: about["role"], owner: about["owner"], why: event.GetWhy(), at: timeOf(event.GetAt()), phase: "RUNNING"}
			if slices.Contains(phases, event.GetWhat()) {
				known[event.GetName()].phase = strings.ToUpper(event.GetWhat())
			}
		}
	}
	there, _, err := client.All(ctx, s.jobs.ListJobs, storyMax, &apiv1.ListJobsRequest{Prefix: name, All: true})
	if err != nil && !noManager(err) {
		return nil, nil, err
	}
	for _, job := range there {
		if timeOf(job.GetSubmitted()).After(one.then) || name != "" && job.GetName() != name {
			continue
		}
		if known[job.GetName()] == nil {
			known[job.GetName()] = &jobThen{name: job.GetName(), role: job.GetRole(), owner: job.GetOwner(), at: timeOf(job.GetSubmitted())}
		}
		known[job.GetName()].kind = job.GetType()
	}
	for _, task := range one.tasks() {
		if job := known[task.GetLabels()[api.JobLabel]]; job != nil {
			job.tasks = append(job.tasks, task)
		}
	}
	var all []*jobThen
	for _, name := range slices.SortedFunc(maps.Keys(known), words.CompareNatural) {
		if job := known[name]; job.phase != "DELETING" || len(job.tasks) > 0 { // else it was forgotten
			all = append(all, job)
		}
	}
	return all, gaps, nil
}

// running returns how many of a job's tasks ran.
func (j *jobThen) running() (n int) {
	for _, task := range j.tasks {
		if task.GetState() == api.TaskRunning.String() {
			n++
		}
	}
	return n
}

// is says how a job was.
func (j *jobThen) is() cell {
	if j.phase == "" {
		return cell{text: "older than the history", class: "soft"}
	}
	return cell{text: j.phase, class: phaseClass(j.phase)}
}

const jobsThenSaid = "Of jobs the history has what happened to them, and the masters had their tasks; how many waited, and the next runs, nobody has written down."

func (s *Server) jobListThen(r *http.Request, one *copied) (page, error) {
	query := r.URL.Query()
	jobs, gaps, err := s.jobsThen(r.Context(), one, "")
	if err != nil {
		return page{}, err
	}
	jobs, shown := windowOf(r, only(jobs, func(job *jobThen) bool {
		return strings.HasPrefix(job.name, query.Get("q")) && (query.Get("all") != "" || len(job.tasks) > 0 || !slices.Contains(phases[3:], strings.ToLower(job.phase)))
	}))
	shown.columns, shown.empty = []string{"Job", "Type", "Was", "Role", "For", "Tasks", "Running", "Last heard of", "What"}, "There were no jobs"+suchAs(query)+"."
	for _, job := range jobs {
		shown.rows = append(shown.rows, row{job.name, []cell{
			to(job.name, "/jobs/"+url.PathEscape(job.name)), text(job.kind), job.is(), text(job.role), text(job.owner), number(grouped(len(job.tasks))),
			number(grouped(job.running())), since(job.at), text(job.why),
		}})
	}
	return page{title: "Jobs", nav: "/jobs", command: "tender events --until " + thenText(one.then) + " --kind job", blocks: []block{
		{key: "list", title: "Jobs", wide: true, links: []link{{"those that had ended too", "/jobs?all=1"}}, body: listView(shown, filter{"/jobs", query.Get("q"), "Jobs whose name begins with"})},
		{key: "said", title: "What is known", wide: true, body: sentences(append([]string{jobsThenSaid}, gaps...))},
	}}, nil
}

func (s *Server) jobAsThen(r *http.Request, one *copied) (page, error) {
	name := r.PathValue("name")
	found, gaps, err := s.jobsThen(r.Context(), one, name)
	if err != nil {
		return page{}, err
	}
	if len(found) == 0 {
		return page{}, missing("job", name+" at that moment")
	}
	job := found[0]
	facts := []field{
		{"Was", job.is()}, {"Last heard of", since(job.at)}, {"What", text(job.why)}, {"Type", text(job.kind)}, {"Role", text(job.role)}, {"For", text(job.owner)},
		{"Tasks", text(fmt.Sprintf("%s, %d of them RUNNING", words.Count(len(job.tasks), "task"), job.running()))},
	}
	its, tasks := windowOf(r, job.tasks)
	versions := s.versions(r.Context(), name, one.then)
	return page{title: name, nav: "/jobs", command: "tender explain " + words.Quote(name) + " --at " + thenText(one.then), blocks: []block{
		{key: "facts", title: "Job " + name, body: fieldsView(facts)},
		{key: "versions", title: "Its versions up to then", note: "of those that are kept", body: tableView(versions)},
		{key: "tasks", title: "Its tasks", wide: true, body: tableView(tasks.withTasks(its, "None of its tasks had an agent.", ""))},
		s.storyOf(r.Context(), one.then, "What had happened", "job/"+name),
		{key: "said", title: "What is known", wide: true, body: sentences(append([]string{jobsThenSaid}, gaps...))},
	}}, nil
}

// storyOf lists what had happened to the first of some things of which anything is known, the newest first.
func (s *Server) storyOf(ctx context.Context, when time.Time, title string, names ...string) block {
	var events []*apiv1.Event
	empty := "The history of the master that answers tells nothing of it."
	for _, name := range names {
		var err error
		if events, _, err = s.until(ctx, when, lifeMax, &apiv1.ListEventsRequest{Of: name}); err != nil {
			empty = sentenceOf(err)
		}
		if len(events) > 0 {
			break
		}
	}
	return block{key: "story", title: title, note: "the newest first", wide: true, body: tableView(eventsView(events, empty))}
}

// whyThen tells how something had come to be as it was.
func (s *Server) whyThen(r *http.Request, one *copied, name string) page {
	framework := name
	for _, known := range one.frameworks {
		if known.GetName() == name {
			framework = known.GetId()
		}
	}
	return page{title: "Why was it not running?", nav: "/why", command: "tender explain " + words.Quote(name) + " --at " + thenText(one.then), blocks: []block{
		{key: "asked", title: "Type the name of a framework, a job or a task", wide: true, body: listView(table{}, filter{"/why", name, "Name"})},
		s.storyOf(r.Context(), one.then, "How it had come to be so", "framework/"+framework, "task/"+name, "job/"+name),
	}}
}

// mastersThen are the masters of a moment, and the elections up to it.
func (s *Server) mastersThen(r *http.Request, one *copied) page {
	shown := table{columns: []string{"Master", "Was", "Since", "gRPC", "HTTP", "Raft", "Allocator", "Version", "Why"}, empty: "Which masters there were is not known."}
	for _, master := range one.masters {
		shown.rows = append(shown.rows, row{master.GetId(), []cell{
			text(master.GetId()), {text: master.GetState(), class: masterClass(master)}, since(timeOf(master.GetSince())), text(master.GetGrpcAddress()), text(master.GetHttpAddress()),
			text(master.GetRaftAddress()), text(master.GetAllocator()), text(master.GetVersion()), text(master.GetWhy()),
		}})
	}
	return page{title: "Masters", nav: "/masters", command: "tender events --until " + thenText(one.then) + " --kind election,master", blocks: []block{
		{key: "list", title: "Masters", note: "how far each was behind, which snapshots it had, and who had which certificate, nobody has written down", wide: true, body: tableView(shown)},
		s.electionsUntil(r.Context(), one.then),
	}}
}

func masterClass(master *apiv1.MasterView) string {
	if master.GetState() == "unreachable" || master.GetWhy() != "" {
		return "bad"
	}
	return "good"
}

// electionsUntil lists who has led from when on, and which masters have come and gone.
func (s *Server) electionsUntil(ctx context.Context, when time.Time) block {
	empty := "The master that answers knows of no election."
	events, _, err := s.until(ctx, when, shortMax, &apiv1.ListEventsRequest{Kinds: []string{"election", "master", "authority"}})
	if err != nil {
		empty = sentenceOf(err)
	}
	return block{key: "elections", title: "Elections, and masters that came and went", note: "the newest first", wide: true, body: tableView(eventsView(events, empty)), command: "tender events --kind election,master,authority"}
}

// thenText writes a moment for a command line.
func thenText(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }
