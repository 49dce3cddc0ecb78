package agent

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logging"
	"github.com/tenderhq/tender/internal/protocol"
)

// metrics belong to one agent, because many agents may live in one process. They are few plain numbers, so they are
// written directly as the text that Prometheus reads. Its library would cost every idle agent megabytes.
type metrics struct {
	events     atomic.Uint64
	ended      atomic.Uint64
	records    atomic.Uint64
	groups     atomic.Uint64
	tasks      atomic.Int64
	executors  atomic.Int64
	flying     atomic.Int64
	revoked    atomic.Uint64
	registered atomic.Int64
	stuck      atomic.Uint64
	illegal    atomic.Uint64
	denied     atomic.Uint64 // HTTP requests that were denied
	dropped    atomic.Uint64 // messages that were dropped because a queue was full
	held       atomic.Int64  // nanoseconds for which nothing was read from executors because of their allowance
	unheard    atomic.Uint64 // messages that were dropped because there was no session
}

const (
	// frameworksNamedMax is how many frameworks have lines of their own. The others are summed.
	frameworksNamedMax = 100
	others             = "(others)"
)

// writeFrameworks writes what the executors and tasks of each framework use.
func writeFrameworks(w io.Writer, used *protocol.UsageReport) {
	sums := make(map[string]api.Usage)
	for ref, use := range used.Executors { // order: irrelevant because it sums
		sum := sums[string(ref.Framework)]
		sum.CPU, sum.Mem = sum.CPU+use.CPU, sum.Mem+use.Mem
		sums[string(ref.Framework)] = sum
	}
	names := slices.Sorted(maps.Keys(sums))
	if len(names) > frameworksNamedMax {
		var rest api.Usage
		for _, name := range names[frameworksNamedMax:] {
			rest.CPU, rest.Mem = rest.CPU+sums[name].CPU, rest.Mem+sums[name].Mem
		}
		names, sums[others] = append(names[:frameworksNamedMax], others), rest
	}
	var all []series
	for _, name := range names {
		all = append(all, usedBy(sums[name], "framework", name)...)
	}
	writeFamily(w, "tender_agent_framework_used", "gauge", "What executors and tasks of a framework really use, as last measured.", all...)
}

// writeTasks writes what each task uses that has processes of its own.
func writeTasks(w io.Writer, used *protocol.UsageReport) {
	var now, sinceStart []series
	for _, ref := range slices.SortedFunc(maps.Keys(used.Tasks), api.TaskRef.Compare) {
		task := []string{"framework", string(ref.Framework), "task", string(ref.Task)}
		now = append(now, usedBy(used.Tasks[ref], task...)...)
		sinceStart = append(sinceStart, series{task, used.Tasks[ref].CPUs.Seconds()})
	}
	writeFamily(w, "tender_agent_task_used", "gauge", "What a task really uses, as last measured.", now...)
	writeFamily(w, "tender_agent_task_cpu_seconds_total", "counter", "Processor time that a task has used since its start.", sinceStart...)
}

// usedBy returns usage in base units: cores and bytes.
func usedBy(use api.Usage, labels ...string) []series {
	of := func(resource string, value float64) series {
		return series{append(slices.Clip(labels), "resource", resource), value}
	}
	return []series{of("cpus", use.CPU.Float()), of("mem", use.Mem.Float()*(1<<20))}
}

// series is one line of a metric that has labels.
type series struct {
	labels []string // names and values by turns
	value  float64
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// writeFamily writes a metric with labels; nothing if there are no lines.
func writeFamily(w io.Writer, name, kind, help string, all ...series) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	for _, one := range all {
		var labels []string
		for pair := range slices.Chunk(one.labels, 2) {
			labels = append(labels, fmt.Sprintf(`%s="%s"`, pair[0], escape.Replace(pair[1])))
		}
		fmt.Fprintf(w, "%s{%s} %v\n", name, strings.Join(labels, ","), one.value)
	}
}

// writeListeners writes what the agent's listeners have counted.
func writeListeners(w io.Writer, listeners ...*sharedListener) {
	var refused, failed uint64
	for _, listener := range listeners {
		if listener != nil {
			refused += listener.refused.Load()
			failed += listener.failed.Load()
		}
	}
	writeMetric(w, "tender_agent_connections_refused_total", "counter",
		"Connections that were closed at once because too many were open.", refused)
	writeMetric(w, "tender_agent_accepts_failed_total", "counter",
		"Times that no connection could be accepted, for want of file descriptors for example.", failed)
}

// writeDropped writes how many lines the log has dropped, if that is counted.
func writeDropped(w io.Writer, log *logging.Writer) {
	if log != nil {
		writeMetric(w, "tender_log_lines_dropped_total", "counter", "Lines that the log has dropped because they came faster than they were taken.", log.Dropped())
	}
}

// writeMetric writes one plain number in the Prometheus text format.
func writeMetric(w io.Writer, name, kind, help string, value any) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %v\n", name, help, name, kind, name, value)
}

func (m *metrics) written(records int) {
	m.groups.Add(1)
	m.records.Add(uint64(records))
}

// look copies the numbers of the core that are cheap to get.
func (m *metrics) look(c *core.Core) {
	counts := c.Counts()
	m.tasks.Store(int64(counts.Tasks))
	m.executors.Store(int64(counts.Executors))
	m.flying.Store(int64(counts.Flying))
	m.revoked.Store(counts.Revoked)
	m.unheard.Store(counts.Unheard)
	m.illegal.Store(counts.Illegal)
	if counts.Registered {
		m.registered.Store(1)
	} else {
		m.registered.Store(0)
	}
}

func (m *metrics) write(w io.Writer) {
	write := func(name, kind, help string, value any) {
		writeMetric(w, name, kind, help, value)
	}
	write("tender_agent_events_total", "counter", "Events that the core has stepped.", m.events.Load())
	write("tender_agent_tasks_ended_total", "counter", "Tasks that have ended.", m.ended.Load())
	write("tender_agent_tasks_revoked_total", "counter", "Revocable tasks that were killed to make room.", m.revoked.Load())
	write("tender_agent_checkpoint_records_total", "counter", "Records written to the checkpoint.", m.records.Load())
	write("tender_agent_checkpoint_groups_total", "counter", "Groups in which they were written.", m.groups.Load())
	write("tender_agent_tasks", "gauge", "Tasks that have not been forgotten.", m.tasks.Load())
	write("tender_agent_executors", "gauge", "Executors that run, or are being started or ended.", m.executors.Load())
	write("tender_agent_statuses_flying", "gauge", "Statuses sent and not acknowledged.", m.flying.Load())
	write("tender_agent_messages_dropped_total", "counter", "Messages between executors and schedulers that nobody took.",
		m.dropped.Load()+m.unheard.Load())
	write("tender_agent_executors_held_seconds_total", "counter", "How long executors were not read on, as they said more than they may.",
		time.Duration(m.held.Load()).Seconds())
	write("tender_agent_calls_denied_total", "counter", "Requests of HTTP that were denied; the log says whose.", m.denied.Load())
	write("tender_agent_illegal_statuses_total", "counter", "Statuses of executors that were no legal move of their task.", m.illegal.Load())
	write("tender_agent_registered", "gauge", "1 while a session with the leader is open.", m.registered.Load())
	write("tender_loop_stuck_total", "counter", "Times that a round of the agent's loop took too long.", m.stuck.Load())
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	write("go_goroutines", "gauge", "Goroutines of the whole process.", runtime.NumGoroutine())
	write("go_memstats_heap_inuse_bytes", "gauge", "Heap in use by the whole process.", memory.HeapInuse)
}
