package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/calendar"
	"github.com/tenderhq/tender/internal/words"
)

const (
	// indexesMax is how many indexes of a group are drawn.
	indexesMax = 2000
	// runsAhead is how many of the next runs of a cron job are listed.
	runsAhead = 3
)

// jobBlocks are the blocks of a job that has them: steps, a change under way, indexes and runs.
func jobBlocks(job *apiv1.JobStatus, present *structpb.Struct, now time.Time) (blocks []block) {
	if steps := stepsOf(job, present); len(steps.steps) > 0 {
		blocks = append(blocks, block{key: "steps", title: "Its steps", note: "each begins when those before it have ended as it wants", wide: true, body: stepsView(steps)})
	}
	if versions := rollOf(job); len(versions) > 0 {
		blocks = append(blocks, block{key: "roll", title: "The change under way", body: standingsView(versions)})
	}
	if grids := gridsOf(job); len(grids) > 0 {
		blocks = append(blocks, block{key: "indexes", title: "Its indexes", note: "each square one; what has no agent now is empty", wide: true, body: gridsView(grids)})
	}
	if cron := present.GetFields()["cron"].GetStructValue(); cron != nil {
		schedule, zone := cron.GetFields()["schedule"].GetStringValue(), cmp.Or(cron.GetFields()["zone"].GetStringValue(), "UTC")
		blocks = append(blocks, block{key: "runs", title: "Its runs", note: schedule + ", " + zone, body: tableView(runsOf(job, schedule, zone, now))})
		if days := daysOf(job, schedule, zone, now); days != nil {
			blocks = append(blocks, block{key: "calendar", title: "Its calendar", note: "a box each day with a run; dashed: to come", body: calendarView(days)})
		}
	}
	return blocks
}

// steps are the steps of a job as a graph, from above to below, so that it fits a narrow screen.
type steps struct {
	steps  []stepBox
	arrows []string
	width  int
	height int
}

type stepBox struct {
	x, y                     int
	name, state, class, told string
}

// The sizes of a graph of steps, in its own units.
const (
	stepWidth, stepHeight = 150, 42
	stepsApart, rowsApart = 16, 36
	stepsBeside           = 3 // more that begin at the same time stand in several rows
)

// stepsOf draws the steps that a job's file names.
func stepsOf(job *apiv1.JobStatus, present *structpb.Struct) (g steps) {
	list := present.GetFields()["steps"].GetListValue().GetValues()
	after, depth := map[string][]string{}, map[string]int{}
	for _, step := range list {
		fields := step.GetStructValue().GetFields()
		name := fields["name"].GetStringValue()
		after[name] = nil
		for _, before := range fields["after"].GetListValue().GetValues() {
			after[name] = append(after[name], before.GetStringValue())
		}
	}
	for range after { // a path is no longer than there are steps
		for name, before := range after { // order: irrelevant because the depths only grow to the same end
			for _, one := range before {
				depth[name] = max(depth[name], depth[one]+1)
			}
		}
	}
	beside, above, at := map[int]int{}, map[int]int{}, map[string]stepBox{}
	for name := range after { // order: irrelevant because they are counted
		beside[depth[name]]++
	}
	for i := range len(beside) {
		above[i+1] = above[i] + (beside[i]+stepsBeside-1)/stepsBeside
	}
	clear(beside)
	for _, step := range list {
		name := step.GetStructValue().GetFields()["name"].GetStringValue()
		i := beside[depth[name]]
		beside[depth[name]]++
		box := stepBox{x: i % stepsBeside * (stepWidth + stepsApart), y: (above[depth[name]] + i/stepsBeside) * (stepHeight + rowsApart), name: name, class: "soft"}
		if i := slices.IndexFunc(job.GetSubJobs(), func(sub *apiv1.SubJobStatus) bool { return sub.GetName() == name }); i >= 0 {
			sub := job.GetSubJobs()[i]
			box.state, box.class = sub.GetState(), stateClass(sub.GetState())
			box.told = fmt.Sprintf("%s: %s of %d; %d done, %d running, %d failed", name, sub.GetState(), sub.GetTasks(), sub.GetDone(), sub.GetRunning(), sub.GetFailed())
		}
		at[name] = box
		g.steps = append(g.steps, box)
		g.width, g.height = max(g.width, box.x+stepWidth), max(g.height, box.y+stepHeight)
	}
	for _, box := range g.steps {
		for _, before := range after[box.name] {
			from := at[before]
			middle := stepWidth / 2
			g.arrows = append(g.arrows, fmt.Sprintf("M%d %dC%d %d %d %d %d %d", from.x+middle, from.y+stepHeight, from.x+middle, from.y+stepHeight+rowsApart/2,
				box.x+middle, box.y-rowsApart/2, box.x+middle, box.y))
		}
	}
	return g
}

func stateClass(state string) string {
	switch state {
	case "running", "success":
		return "good"
	case "failure":
		return "bad"
	case "blocked":
		return "warn"
	}
	return "soft"
}

// rollOf shows the versions of which tasks run, side by side, while a job changes.
func rollOf(job *apiv1.JobStatus) (all []standing) {
	if job.GetRoll() == nil {
		return nil
	}
	counts := map[int32]int{}
	for _, task := range job.GetTasks() {
		counts[task.GetVersion()]++
	}
	roll := job.GetRoll()
	for _, version := range slices.Sorted(maps.Keys(counts)) {
		s := standing{
			role: fmt.Sprint("version ", version), amount: grouped(counts[version]), class: "c3", has: float64(counts[version]) / float64(len(job.GetTasks())),
			told: words.Count(counts[version], "task"), fair: -1,
		}
		if version == roll.GetTo() {
			s.class, s.fair = "c1", float64(roll.GetChanged())/float64(max(1, roll.GetOf()))
			s.told = fmt.Sprintf("%d of %d changed and proven, %d tried", roll.GetChanged(), roll.GetOf(), roll.GetTrying())
			if roll.GetStopped() {
				s.told += "; no more are changed, as one was bad"
			}
			if roll.GetBack() {
				s.told += "; it is being changed back"
			}
		}
		all = append(all, s)
	}
	return all
}

// grid is the indexes of a group of tasks.
type grid struct {
	name    string
	columns int
	rows    int
	cells   []gridCell
	told    string
}

type gridCell struct {
	x, y               int
	class, title, href string
}

// gridsOf draws the indexes of each group of more than one.
func gridsOf(job *apiv1.JobStatus) (all []grid) {
	for _, sub := range job.GetSubJobs() {
		n := min(int(sub.GetTasks()), indexesMax)
		if n < 2 {
			continue
		}
		g := grid{name: sub.GetName(), columns: max(10, int(math.Ceil(math.Sqrt(float64(5*n)))))}
		g.rows = (n + g.columns - 1) / g.columns
		g.told = fmt.Sprintf("%d running, %d waiting, %d done, %d failed of %d", sub.GetRunning(), sub.GetWaiting()+sub.GetPausing(), sub.GetDone(), sub.GetFailed(), sub.GetTasks())
		latest := map[int32]*apiv1.JobTask{}
		for _, task := range job.GetTasks() {
			if had := latest[task.GetIndex()]; task.GetSubJob() == sub.GetName() && (had == nil || had.GetAttempt() < task.GetAttempt()) {
				latest[task.GetIndex()] = task
			}
		}
		for i := range n {
			cell := gridCell{x: i % g.columns * step, y: i / g.columns * step, class: "free", title: fmt.Sprintf("%s %d has no agent now", sub.GetName(), i)}
			if int(sub.GetDone()) == n {
				cell.class, cell.title = "fill-soft", fmt.Sprintf("%s %d is done", sub.GetName(), i)
			}
			if task := latest[int32(i)]; task != nil {
				cell.class = "fill-" + cmp.Or(gradeOf(&apiv1.TaskView{State: task.GetState()}), "soft")
				cell.href = "/tasks/" + url.PathEscape(job.GetFrameworkId()) + "/" + url.PathEscape(task.GetTaskId())
				cell.title = strings.TrimSuffix(fmt.Sprintf("%s %d, version %d: %s on %s; %s", sub.GetName(), i, task.GetVersion(), cmp.Or(task.GetState(), "on its way"), task.GetHostname(), task.GetWhy()), "; ")
			}
			g.cells = append(g.cells, cell)
		}
		all = append(all, g)
	}
	return all
}

// runsOf lists the runs of a cron job that are kept, and the next ones.
func runsOf(job *apiv1.JobStatus, schedule, zone string, now time.Time) table {
	shown := table{columns: []string{"Run", "Due", "Is", "Done", "Failed"}, empty: "No run is kept or known."}
	next := now
	var ahead []row
	for i := range runsAhead {
		due, err := calendar.Next(schedule, zone, next)
		if err != nil || job.GetNextRun() == nil {
			break
		}
		ahead = append(ahead, row{fmt.Sprint("next", i), []cell{text("next"), since(due), {text: "to come", class: "soft"}, {}, {}}})
		next = due
	}
	slices.Reverse(ahead)
	shown.rows = ahead
	for _, run := range slices.Backward(job.GetRuns()) {
		shown.rows = append(shown.rows, row{fmt.Sprint(run.GetNumber()), []cell{
			number(fmt.Sprint(run.GetNumber())), since(timeOf(run.GetDue())), {text: run.GetState(), class: stateClass(run.GetState())},
			number(fmt.Sprint(run.GetDone())), number(fmt.Sprint(run.GetFailed())),
		}})
	}
	return shown
}

// day is a day of the calendar of a cron job.
type day struct {
	x, y                      int
	number, runs, told, class string
}

// The size of a day in the calendar, and how many weeks it has: the one before this one, and those behind it.
const (
	dayWidth, dayHeight = 46, 34
	weeksShown          = 6
)

// daysOf draws some weeks, with the runs that are kept and those to come; nil: the schedule can't be read here.
func daysOf(job *apiv1.JobStatus, schedule, zone string, now time.Time) []day {
	place, err := time.LoadLocation(zone)
	if err != nil {
		return nil
	}
	today := now.In(place)
	first := time.Date(today.Year(), today.Month(), today.Day()-(int(today.Weekday())+6)%7-7, 0, 0, 0, 0, place)
	due, was, bad := map[string][]string{}, map[string][]string{}, map[string]bool{}
	for _, run := range job.GetRuns() {
		at := timeOf(run.GetDue()).In(place)
		on := at.Format(time.DateOnly)
		was[on] = append(was[on], at.Format("15:04 ")+run.GetState())
		bad[on] = bad[on] || stateClass(run.GetState()) != "good"
	}
	end := first.AddDate(0, 0, 7*weeksShown)
	for at := now; job.GetNextRun() != nil; {
		if at, err = calendar.Next(schedule, zone, at); err != nil || at.IsZero() || !at.Before(end) {
			break
		}
		on := at.Format(time.DateOnly)
		if due[on] = append(due[on], at.Format("15:04")); len(due[on]) > shortMax { // they need not be counted
			at = time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, -1, place)
		}
	}
	days := make([]day, 0, 7*weeksShown)
	for i := range 7 * weeksShown {
		at := first.AddDate(0, 0, i)
		on := at.Format(time.DateOnly)
		d := day{x: i % 7 * dayWidth, y: i / 7 * dayHeight, number: strconv.Itoa(at.Day()), told: at.Format("Monday, 2 January")}
		if at.Day() == 1 || i == 0 {
			d.number = at.Format("2 Jan")
		}
		switch {
		case bad[on]:
			d.class = "box bad"
		case was[on] != nil:
			d.class = "box good"
		case due[on] != nil:
			d.class = "box warn"
		}
		d.add("was", was[on])
		d.add("due", due[on])
		days = append(days, d)
	}
	return days
}

// add says which runs a day has; each begins with its time.
func (d *day) add(what string, runs []string) {
	switch n := len(runs); {
	case n == 0:
		return
	case n == 1:
		d.runs = runs[0][:len("15:04")]
	case n <= shortMax:
		d.runs = fmt.Sprint(n, " runs")
	default:
		d.runs, runs = "many", append(runs[:shortMax:shortMax], "and more")
	}
	d.told += "; " + what + ": " + strings.Join(runs, ", ")
}

// presentOf returns the version that a job has now.
func (s *Server) presentOf(ctx context.Context, name string) (*apiv1.JobVersion, error) {
	history, err := s.jobs.GetJobHistory(ctx, &apiv1.GetJobHistoryRequest{Name: name})
	if err != nil {
		return nil, err
	}
	for _, version := range history.GetItems() {
		if version.GetCurrent() {
			return version, nil
		}
	}
	return nil, missing("version of job", name)
}

// textOfJob writes a job for people who change it.
func textOfJob(job *structpb.Struct) string {
	var text bytes.Buffer
	writer := json.NewEncoder(&text)
	writer.SetEscapeHTML(false)
	writer.SetIndent("", "  ")
	_ = writer.Encode(job.AsMap()) // what came as a message can be written
	return text.String()
}

// jobIn reads the job that a form has.
func jobIn(form url.Values) (*structpb.Struct, error) {
	job := &structpb.Struct{}
	if err := job.UnmarshalJSON([]byte(form.Get("text"))); err != nil {
		return nil, invalid("this is no job in JSON: %v", err)
	}
	return job, nil
}

// scaled returns what a service becomes with the number of tasks that a form says, held to the version that it has now.
func (s *Server) scaled(ctx context.Context, form url.Values) (*apiv1.UpdateJobRequest, error) {
	count, err := strconv.ParseUint(form.Get("count"), 10, 31)
	if err != nil {
		return nil, invalid("%q is no number of tasks", form.Get("count"))
	}
	present, err := s.presentOf(ctx, form.Get("job"))
	if err != nil {
		return nil, err
	}
	job := present.GetJob()
	service := job.GetFields()["service"].GetStructValue()
	if service == nil {
		return nil, invalid("only a service has a number of tasks that is kept running")
	}
	if service.Fields == nil {
		service.Fields = map[string]*structpb.Value{}
	}
	service.Fields["count"] = structpb.NewNumberValue(float64(count))
	return &apiv1.UpdateJobRequest{Job: job, IfVersion: present.GetVersion()}, nil
}

// seen is the hidden field of a form that has the version of the job that its reader has seen (R77).
const seen = "seen"

// fillSeen notes in a form which version a job has now.
func (s *Server) fillSeen(ctx context.Context, form url.Values) (job *structpb.Struct) {
	present, err := s.presentOf(ctx, form.Get("job"))
	if err != nil {
		return nil
	}
	form.Set(seen, strconv.Itoa(int(present.GetVersion())))
	return present.GetJob()
}

// numberIn reads a number that a form may have; 0: it has none.
func numberIn(form url.Values, name string) (int32, error) {
	number, err := strconv.ParseInt("0"+form.Get(name), 10, 32)
	if err != nil {
		return 0, invalid("%s: %q is no number", name, form.Get(name))
	}
	return int32(number), nil
}

// planOf says what a job would change, and notes in the form to which version it was compared.
func (s *Server) planOf(ctx context.Context, form url.Values, job *structpb.Struct) ([]string, error) {
	plan, err := s.jobs.PlanJob(ctx, &apiv1.PlanJobRequest{Job: job})
	if err != nil {
		return nil, err
	}
	form.Set(seen, strconv.Itoa(int(plan.GetVersion())))
	lines := []string{fmt.Sprintf("The plan is to %s %s.", plan.GetAction(), job.GetFields()["name"].GetStringValue())}
	if plan.GetAction() == "nothing" {
		lines[0] = "It is so already: nothing would change."
	}
	lines = append(lines, plan.GetChanges()...)
	for _, sub := range plan.GetSubJobs() {
		lines = append(lines, fmt.Sprintf("%s: %s.", sub.GetName(), words.Count(int(sub.GetTasks()), "task")))
	}
	return lines, nil
}

// jobActions are the changes of jobs.
var jobActions = []action{
	{
		name: "stop-job", title: "Stop the job", danger: true, hits: hitsJob("stop-job", "All of its tasks are ended. Its history stays, and it can be begun anew."),
		command: func(form url.Values) string { return "tender job stop " + words.Quote(form.Get("job")) },
		do: func(ctx context.Context, s *Server, form url.Values) (string, error) {
			_, err := s.jobs.StopJob(ctx, &apiv1.StopJobRequest{Name: form.Get("job")})
			return "Its tasks are being ended.", err
		},
		back: jobBack,
	},
	{
		name: "rollback-job", title: "Change it back", hits: hitsJob("rollback-job", "Its tasks are changed to the version below, in the steps that the job says."),
		fields: []input{{"version", "Version", "nothing: the one before", ""}},
		command: func(form url.Values) string {
			return "tender job rollback " + words.Quote(form.Get("job")) + flags(form, "version", "")
		},
		fill: func(ctx context.Context, s *Server, form url.Values) { s.fillSeen(ctx, form) },
		do: func(ctx context.Context, s *Server, form url.Values) (string, error) {
			version, err := numberIn(form, "version")
			if err != nil {
				return "", err
			}
			present, err := numberIn(form, seen)
			if err != nil {
				return "", err
			}
			answer, err := s.jobs.RollbackJob(ctx, &apiv1.RollbackJobRequest{Name: form.Get("job"), Version: version, IfVersion: present})
			return fmt.Sprintf("It changes back, as version %d.", answer.GetVersion()), err
		},
		back: jobBack,
	},
	{
		name: "run-job-now", title: "Run it now", hits: hitsJob("run-job-now", "A run of it begins at once; the schedule stays as it is.",
			"If a run goes on, the new one is refused, begins beside it or replaces it, as the job's overlap says."),
		fill: func(ctx context.Context, s *Server, form url.Values) { // so that a form that is sent twice asks for one run
			if job, err := s.jobs.GetJob(ctx, &apiv1.GetJobRequest{Name: form.Get("job")}); err == nil {
				form.Set("number", strconv.Itoa(int(job.GetNewestRun())+1))
			}
		},
		command: func(form url.Values) string { return "tender job run-now " + words.Quote(form.Get("job")) },
		do: func(ctx context.Context, s *Server, form url.Values) (string, error) {
			number, err := numberIn(form, "number")
			if err != nil {
				return "", err
			}
			run, err := s.jobs.RunJobNow(ctx, &apiv1.RunJobNowRequest{Name: form.Get("job"), Number: number})
			return fmt.Sprintf("Run %d begins.", run.GetNumber()), err
		},
		back: jobBack,
	},
	{
		name: "scale-job", title: "Scale the job", hits: hitsJob("update-job", "It becomes a new version with this number of tasks."),
		fields:  []input{{"count", "Tasks", "how many are kept running", ""}},
		command: func(url.Values) string { return "tender job update FILE" },
		plan: func(ctx context.Context, s *Server, form url.Values) ([]string, error) {
			change, err := s.scaled(ctx, form)
			if err != nil {
				return nil, err
			}
			return s.planOf(ctx, form, change.GetJob())
		},
		do: func(ctx context.Context, s *Server, form url.Values) (string, error) {
			change, err := s.scaled(ctx, form)
			if err != nil {
				return "", err
			}
			return s.update(ctx, change)
		},
		back: jobBack,
	},
	{
		name: "update-job", title: "Update the job", hits: hitsJob("update-job", "It becomes a new version, in the steps that it says. Look at the plan first."),
		fields: []input{{"text", "The job, with the words of its file, as JSON", "", "text"}}, fill: func(ctx context.Context, s *Server, form url.Values) {
			if job := s.fillSeen(ctx, form); job != nil && form.Get("text") == "" {
				form.Set("text", textOfJob(job))
			}
		},
		command: func(url.Values) string { return "tender job update FILE" }, plan: planIn,
		do: func(ctx context.Context, s *Server, form url.Values) (string, error) {
			job, err := jobIn(form)
			if err != nil {
				return "", err
			}
			present, err := numberIn(form, seen)
			if err != nil {
				return "", err
			}
			return s.update(ctx, &apiv1.UpdateJobRequest{Job: job, IfVersion: present})
		},
		back: jobBack,
	},
	{
		name: "run-job", title: "Run a job",
		fields: []input{{"text", "The job, with the words of a job's file, as JSON", "", "text"}}, fill: func(_ context.Context, _ *Server, form url.Values) {
			if form.Get("text") == "" {
				form.Set("text", "{\n  \"name\": \"hello\",\n  \"type\": \"batch\",\n  \"task\": { \"command\": \"echo hello\", \"cpus\": 0.1, \"mem\": \"32MB\" }\n}\n")
			}
		},
		hits: func(context.Context, *Server, url.Values) ([]string, *apiv1.PrincipalGrant, error) {
			return []string{"A job manager begins it, and runs it whatever fails. Look at the plan first."}, &apiv1.PrincipalGrant{Verb: "submit-job"}, nil
		},
		command: func(url.Values) string { return "tender job run FILE" }, plan: planIn,
		do: func(ctx context.Context, s *Server, form url.Values) (string, error) {
			job, err := jobIn(form)
			if err != nil {
				return "", err
			}
			version, err := s.jobs.SubmitJob(ctx, &apiv1.SubmitJobRequest{Job: job})
			return fmt.Sprintf("%s is begun, as version %d.", version.GetName(), version.GetVersion()), err
		},
		back: func(url.Values) string { return "/jobs" },
	},
}

func planIn(ctx context.Context, s *Server, form url.Values) ([]string, error) {
	job, err := jobIn(form)
	if err != nil {
		return nil, err
	}
	return s.planOf(ctx, form, job)
}

func (s *Server) update(ctx context.Context, change *apiv1.UpdateJobRequest) (string, error) {
	version, err := s.jobs.UpdateJob(ctx, change)
	return fmt.Sprintf("It changes to version %d.", version.GetVersion()), err
}

func jobBack(form url.Values) string { return "/jobs/" + url.PathEscape(form.Get("job")) }

func hitsJob(verb string, lines ...string) func(context.Context, *Server, url.Values) ([]string, *apiv1.PrincipalGrant, error) {
	return func(ctx context.Context, s *Server, form url.Values) ([]string, *apiv1.PrincipalGrant, error) {
		job, err := s.jobs.GetJob(ctx, &apiv1.GetJobRequest{Name: form.Get("job")})
		if err != nil {
			return nil, nil, err
		}
		first := fmt.Sprintf("Job %s, which is %s with %s.", job.GetName(), job.GetPhase(), words.Count(len(job.GetTasks()), "task"))
		return append([]string{first}, lines...), &apiv1.PrincipalGrant{Verb: verb, Role: job.GetRole()}, nil
	}
}

// mayScale reports whether a job keeps a number of tasks running.
func mayScale(job *apiv1.JobStatus) bool { return job.GetType() == "service" }
