package master

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/intake"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/internal/tally"
	"github.com/tenderhq/tender/master/view"
)

// metrics has a registry of its own and uses nothing global, so that many masters fit in one process.
type metrics struct {
	registry  *prometheus.Registry
	commits   prometheus.Histogram
	batch     prometheus.Histogram
	calls     *prometheus.CounterVec
	broken    prometheus.Counter
	stuck     prometheus.Counter
	dropped   prometheus.Counter // messages between executors and frameworks
	returns   prometheus.Histogram
	rounds    prometheus.Histogram
	allocates prometheus.Histogram
	starts    prometheus.Histogram
	elections prometheus.Counter
	held      *prometheus.CounterVec
	named     guard.Names // the principals that metrics may name
}

func newMetrics() *metrics {
	registry := prometheus.NewRegistry()
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		made := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		registry.MustRegister(made)
		return made
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		made := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(made)
		return made
	}
	counter := func(name, help string) prometheus.Counter { return counters(name, help).WithLabelValues() }
	short := prometheus.ExponentialBuckets(0.000025, 1.5, 30) // to 3.2 s
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &metrics{
		registry: registry,
		commits: histogram("tender_raft_commit_seconds", "From handing an entry to the quorum until it is applied here.",
			prometheus.ExponentialBuckets(0.0005, 2, 14)),
		batch:   histogram("tender_raft_entry_commands", "Commands in one entry of the log.", prometheus.ExponentialBuckets(1, 4, 8)),
		calls:   counters("tender_calls_total", "Calls and streams that have ended, by method and kind of error.", "method", "kind"),
		broken:  counter("tender_core_broken_total", "Leaderships that ended because the core broke a rule of its own."),
		stuck:   counter("tender_loop_stuck_total", "Leaderships that ended because a round of the loop took too long."),
		dropped: counter("tender_messages_dropped_total", "Messages between executors and frameworks for which too many waited already, on the leader."),
		returns: histogram("tender_offer_return_seconds",
			"From the arrival of what frees an agent's resources (a task's end, an answer) until their next offer is on its way.", short),
		rounds: histogram("tender_loop_round_seconds", "How long a round of the leader's loop takes: what comes meanwhile waits for its end.", short),
		allocates: histogram("tender_allocator_run_seconds",
			"How long a run of the allocation policy takes, with the making of its offers, on the leader.", short),
		starts: histogram("tender_task_start_seconds", "From the launch of a task until it is RUNNING, on the leader.",
			prometheus.ExponentialBuckets(0.001, 2, 16)), // to 33 s
		elections: counter("tender_elections_won_total", "How often this master has begun to lead."),
		held: counters("tender_peers_held_seconds_total", "How long peers were not read on as they had used up an allowance, by what it is of, and by principal where all that it has together was the reason; of addresses the log says which.",
			"of", "principal"),
	}
}

func (m *metrics) committed(commands int, took time.Duration) {
	m.commits.Observe(took.Seconds())
	m.batch.Observe(float64(commands))
}

// returned observes, for offers that are being sent now, how long their resources were free.
func (m *metrics) returned(since []time.Time) {
	now := time.Now()
	for _, at := range since {
		m.returns.Observe(now.Sub(at).Seconds())
	}
}

func (m *metrics) called(method string, err error) {
	m.calls.WithLabelValues(method, outcome(err)).Inc()
}

// holdings adds up what principals have that metrics do not name individually.
func (m *metrics) holdings(all map[string]view.Tally) map[string]view.Tally {
	named := make(map[string]view.Tally)
	for _, principal := range slices.Sorted(maps.Keys(all)) {
		name := m.named.Of(principal)
		named[name] = named[name].Plus(all[principal])
	}
	return named
}

// outcome returns the kind of error with which a call ended. A call that its caller has canceled is "canceled", not an
// error.
func outcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, context.Canceled), status.Code(err) == codes.Canceled:
		return "canceled"
	}
	return wire.Error(wire.Status(err)).Kind.String()
}

// collector reads from the rooms of a master what is asked for.
type collector struct {
	config  *Config
	raft    *raftlog.Log
	intake  *intake.Intake
	metrics *metrics
	leading *leadership
	proof   *proof
	masters *masters
	watches *watchLogs
	saver   *saver
}

var (
	leadingGauge  = gauge("tender_master_leading", "1 on the master that leads.")
	termGauge     = gauge("tender_raft_term", "Raft's term.")
	appliedGauge  = gauge("tender_raft_applied_index", "Last entry applied here.")
	lastGauge     = gauge("tender_raft_last_index", "Last entry written here.")
	agentsGauge   = gauge("tender_agents", "Agents by state, on the leader.", "state")
	tasksGauge    = gauge("tender_tasks", "Tasks by state, on the leader.", "state")
	frameworks    = gauge("tender_frameworks", "Frameworks that are not removed, on the leader.")
	activeGauge   = gauge("tender_frameworks_active", "Frameworks with a scheduler, on the leader.")
	detachedGauge = gauge("tender_frameworks_detached", "Frameworks without a scheduler that need none, such as those of tender run --detach, on the leader.")
	sharesGauge   = gauge("tender_principal_holdings", "What the frameworks of a principal have together, on the leader.", "principal", "of")
	placedTotal   = gauge("tender_placements_total", "Tasks launched by this leader that say how near they are to what they prefer.", "framework", "level")
	placedWait    = gauge("tender_placement_wait_seconds_total", "How long they have waited for that, summed.", "framework")
	placedIdle    = gauge("tender_placement_idle_seconds_total", "How long room was let pass for that and not used, summed over the tasks that it would have held.", "framework")
	offersGauge   = gauge("tender_offers", "Open offers, on the leader.")
	streamsGauge  = gauge("tender_streams", "Streams, on the leader.", "of")
	inboxGauge    = gauge("tender_inbox_events", "Events that wait for the leader's loop.")
	droppedTotal  = gauge("tender_log_lines_dropped_total", "Lines that the log has dropped because they came faster than they were taken.")
	refusedTotal  = gauge("tender_connections_refused_total", "Connections that were closed because too many were open, or were silent for longest of too many of their address.")
	unreadGauge   = gauge("tender_answers_unread_bytes", "Answers of more than 4 KiB that peers have not read yet.")
	unreadTotal   = gauge("tender_connections_unread_total", "Connections that were closed because their peer did not read an answer.")
	voicesTotal   = gauge("tender_agent_words_refused_total", "What agents said of tasks, executors and frameworks that are not theirs; told to nobody.")
	apartGauge    = gauge("tender_tasks_set_apart", "Tasks that agents report and no leader has launched there; neither counted nor killed.")
	givenTotal    = gauge("tender_agents_given_up_total", "Agents that this leader has marked gone because they were away for too long.")
	overdueGauge  = gauge("tender_agents_overdue", "Agents that are away for too long and not marked gone yet, as many are away at once or others come first.")
	illGauge      = gauge("tender_agents_ill", "Agents with something that an operator should look at, on the leader; the WHY of the list says more.", "illness")
	versionTotal  = gauge("tender_versions_refused_total", "Agents and schedulers that came with a version which this leader does not take.")
	lagGauge      = gauge("tender_master_lag_entries", "How many entries another master is behind, as the leader has found it.", "of")
	masterIll     = gauge("tender_master_ill", "1 for another master with which something is wrong, as the leader has found it; the WHY of the list says what.", "of")
	diskGauge     = gauge("tender_raft_disk_failing", "1 while this master's disk takes no writes.")
	historyGauge  = gauge("tender_history_bytes", "What the history takes on this master's disk, by half.", "ring")
	historyLost   = gauge("tender_history_lost_total", "Events that are missing in this master's history, as they came too fast or the disk took no more.")
	queueGauge    = gauge("tender_proposals_waiting", "Commands that wait for the next entry of the log.")
)

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Describe names no metrics in advance, because they depend on whether this master leads.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// scrapeTimeout bounds how long a scrape waits for the leader's loop.
const scrapeTimeout = 2 * time.Second

// Collect reads all values for one scrape.
func (c collector) Collect(out chan<- prometheus.Metric) {
	put := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	count := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, labels...)
	}
	c.collectOwn(put, count)
	l := c.leading.now.Load()
	put(leadingGauge, oneIf(l != nil))
	if l == nil {
		return
	}
	if standings := c.masters.standings.Load(); standings != nil {
		for id, found := range *standings { // order: irrelevant because the registry sorts
			put(lagGauge, float64(found.lag), id)
			put(masterIll, oneIf(found.why != ""), id)
		}
	}
	put(inboxGauge, float64(l.inbox.Waiting()))
	put(queueGauge, float64(l.lead.Waiting()))
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var counts view.Counts
	var roles []view.Role
	var counted tally.Counts
	if l.read(ctx, "metrics", func(c view.Cluster, _ time.Time) {
		counts, roles, counted = c.Counts(), view.PageOf(c, view.RoleList, view.Query{}).Items, l.tally.Counts()
	}) != nil {
		return
	}
	sum := func(desc *prometheus.Desc, starts tally.Starts, label string) {
		out <- prometheus.MustNewConstSummary(desc, starts.Ran, starts.Waited.Seconds(), nil, label)
	}
	collectCapacity(put, counts)
	collectRoles(put, roles)
	collectFrameworks(put, count, counts, l.tally.NameOf)
	collectAgents(put, count, counts)
	collectTally(put, count, sum, counted)
	collectUsage(count, counts.Spent)
	for principal, has := range c.metrics.holdings(counts.Principals) { // order: irrelevant because the registry sorts
		put(sharesGauge, float64(has.Frameworks), principal, "frameworks")
		put(sharesGauge, float64(has.Tasks), principal, "tasks")
		put(sharesGauge, float64(has.Shapes), principal, "shapes")
		put(sharesGauge, float64(has.Offers), principal, "offers")
		put(sharesGauge, float64(has.Filters), principal, "filters")
	}
	put(offersGauge, float64(counts.Offers))
	put(streamsGauge, float64(counts.Schedulers), "schedulers")
	put(streamsGauge, float64(counts.Links), "agents")
}
