package core

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
)

// TestTranscripts plays testdata. Each line is one event. The line "auto" has records stored at once from then on.
func TestTranscripts(t *testing.T) {
	playAll(t, false)
}

// TestCutEverywhere plays them again. After every event the agent is killed, with its log torn after each record that
// may not be on disk yet. The next agent continues from that log, and promises 2, 3 and 6 are checked. Really, groups
// of records are read whole or not at all (R35), so most of these cuts can't happen: the core is right without that.
func TestCutEverywhere(t *testing.T) {
	playAll(t, true)
}

func playAll(t *testing.T, cut bool) {
	transcript.Play(t, func(t *testing.T) transcript.Story {
		w := newWorld(t)
		w.cut = cut
		if cut {
			w.twin = nil
		}
		return w
	})
}

// Play plays one line of a story.
func (w *world) Play(t *testing.T, line transcript.Line) {
	w.t = t
	w.play(line)
}

// Said returns what was written since the last call.
func (w *world) Said() string { return w.out.Take() }

// tester is a *testing.T, or a replacement that finds the shortest history that fails.
type tester interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// world is a core with a clock and a disk of records.
type world struct {
	t      tester
	out    transcript.Out
	core   *Core
	config Config
	now    time.Time
	auto   bool
	quiet  bool     // records are not shown
	log    []Record // records that were to be written
	conn   Conn     // the stream of the leader
	term   api.Term
	sess   uint64
	told   map[api.TaskRef][]api.Status // the statuses that the leader was told
	truth  *truth
	cut    bool         // after every event the agent is killed as well, with its log torn at every place
	twin   *twin        // nil: the core has none
	react  func(Effect) // nil: effects are not answered
}

func newWorld(t tester) *world {
	w := &world{t: t, now: transcript.Epoch, auto: true, quiet: true, term: api.Term{Number: 1}, sess: 1, truth: newTruth()}
	w.config = Config{Agent: api.Agent{Hostname: "h1", Resources: api.Scalars(4, 4096)}, Version: "v1", Sandboxes: "/s", GPUs: []string{"GPU-a", "GPU-b"}}
	w.core = New(w.config, nil)
	w.twin = &twin{}
	return w
}

func (w *world) duration(text string) time.Duration { return transcript.Duration(w.t, text) }

// line plays a line that a test has written.
func (w *world) line(text string) { w.play(transcript.Parse(text)) }

func (w *world) play(a transcript.Line) {
	switch a.Verb {
	case "auto":
		w.auto, w.quiet = a.Word(0) != "off", a.Word(0) != "off"
	case "config":
		w.reconfigure(a)
	case "tick":
		transcript.Tick(&w.now, w.duration(a.Word(0)), func() time.Time { return w.core.Wake() }, func() { w.step(Woken{}) })
	case "clock": // sets the wall clock, while the agent does not run
		w.now = w.now.Add(w.duration(a.Word(0)))
	case "restart":
		w.restart(a)
	case "reset": // what the shell does after Forget
		w.log, w.told, w.truth = nil, nil, newTruth()
		w.core = New(w.config, nil)
		w.step(Started{BootID: a.Named["boot"], Nonce: "nonce-2"})
	case "dump":
		for line := range strings.Lines(w.core.Dump()) {
			if slices.ContainsFunc(a.Words, func(room string) bool { return strings.HasPrefix(line, room+".") }) {
				w.out.Say("%s", strings.TrimSuffix(line, "\n"))
			}
		}
	case "stored":
		w.step(Checkpointed{w.core.disk.written - min(a.Number(w.t, "less"), w.core.disk.written)})
	default:
		w.step(w.happening(a))
	}
}

func (w *world) reconfigure(a transcript.Line) {
	if n := a.Number(w.t, "stubs"); n > 0 {
		w.config.StubsMax = int(n)
	}
	w.config.SandboxBytesMax = int64(a.Number(w.t, "sandboxes")) << 20
	if gpus := a.List("gpus"); len(gpus) > 0 {
		w.config.GPUs = gpus
	}
	if version := a.Named["version"]; version != "" {
		w.config.Version = version
	}
	w.config.TaskUser, w.config.TaskUsers = a.Named["user"], strings.FieldsFunc(a.Named["users"], func(r rune) bool { return r == ',' })
	w.config.RecoveryTimeout = w.duration(a.Named["recovery"])
	w.config.NoImages = strings.ReplaceAll(a.Named["noimages"], "-", " ")
	w.core = New(w.config, w.log)
}

// restart kills the agent. Records that were not stored are lost, unless the line says "all".
func (w *world) restart(a transcript.Line) {
	if w.auto || a.Word(0) == "all" {
		w.core.disk.stored = w.core.disk.written
	}
	lost := int(w.core.disk.written - w.core.disk.stored)
	w.log = w.log[:len(w.log)-lost]
	if a.Word(0) == "compacted" {
		w.log = w.core.Records()
	}
	w.core = New(w.config, w.log)
	started := Started{BootID: a.Named["boot"], Nonce: "nonce-2"}
	for _, name := range a.List("alive") {
		for _, run := range w.core.Runs() {
			if run.Run.Executor.String() == name {
				started.Alive = append(started.Alive, run.Run)
			}
		}
	}
	w.step(started)
}

func (w *world) step(what Happening) {
	w.truth.happened(w.core, what)
	event := Event{w.now, what}
	w.twin.tell(w, event)
	effects := w.core.Step(event)
	w.twin.compare(w, effects)
	for _, effect := range effects {
		w.truth.performed(w.core, effect)
		if c, is := effect.(Checkpoint); is {
			w.log = append(w.log, c.Record)
			if forgotten, is := c.Record.(StubForgotten); is {
				delete(w.told, forgotten.Task) // the ID is new to the agent again
			}
		}
	}
	for _, effect := range effects {
		w.durable(effect)
		if call, is := effect.(ToLeader); is {
			if update, is := call.Call.(protocol.StatusUpdate); is {
				w.toldInOrder(update.Status)
			}
		}
		if text := w.show(effect); text != "" {
			w.out.SayAt(w.now, text)
		}
		if w.react != nil {
			w.react(effect)
		}
	}
	w.groupsHold()
	w.gpusHold()
	if w.react == nil {
		w.restorable()
	}
	if w.cut {
		w.cutEverywhere()
	}
	if w.auto && w.core.disk.stored < w.core.disk.written {
		w.step(Checkpointed{w.core.disk.written})
	}
}

// restorable checks that a core that is made from the log has the same state as this one, and so has one that is made
// from the compacted records.
func (w *world) restorable() {
	want := w.core.Records()
	for from, log := range map[string][]Record{"log": w.log, "compaction": want} {
		if got := New(w.config, log).Records(); !reflect.DeepEqual(want, got) { // Diff alone is slow
			w.t.Fatalf("restored from the %s it differs (-live +restored):\n%s", from, gocmp.Diff(want, got, opts))
		}
	}
}

// tokenHash is the hash of the token that all executors of these tests have.
var tokenHash = func() string {
	hash := sha256.Sum256([]byte("token"))
	return hex.EncodeToString(hash[:])
}()

var opts = gocmp.Comparer(func(a, b api.Resources) bool { return a.Equal(b) })

func (w *world) ref(name string) api.TaskRef {
	f, task, _ := strings.Cut(name, "/")
	return api.TaskRef{Framework: api.FrameworkID(f), Task: api.TaskID(task)}
}

func (w *world) xref(name string) api.ExecutorRef {
	f, e, _ := strings.Cut(name, "/")
	return api.ExecutorRef{Framework: api.FrameworkID(f), Executor: api.ExecutorID(e)}
}

// run reads a run as F/E#N; without #N it is the present run of that executor.
func (w *world) run(name string) Run {
	name, number, _ := strings.Cut(name, "#")
	if n, err := strconv.ParseUint(number, 10, 64); err == nil {
		return Run{w.xref(name), n}
	}
	if e := w.core.state.executors[w.xref(name)]; e != nil {
		return e.run()
	}
	return Run{w.xref(name), 0}
}

// prepared returns the launch of a task that was prepared: of= names the number of one that is over.
func (w *world) prepared(a transcript.Line) TaskLaunch {
	ref := w.ref(a.Word(0))
	if a.Named["of"] != "" {
		return TaskLaunch{ref, api.LaunchID{Term: w.term, Number: a.Number(w.t, "of")}}
	}
	if t := w.core.state.tasks[ref]; t != nil {
		return t.taskLaunch()
	}
	return TaskLaunch{TaskRef: ref}
}

func (w *world) happening(a transcript.Line) Happening {
	message := a.Named["message"]
	switch a.Verb {
	case "started":
		return Started{BootID: a.Named["boot"], Nonce: "nonce-1"}
	case "open":
		w.conn++
		return LeaderOpened{w.conn}
	case "closed":
		return w.leaderClosed(a)
	case "leader":
		return w.leaderSaid(a)
	case "forked":
		return ExecutorForked{w.run(a.Word(0)), Process{int(a.Number(w.t, "pid")), 100}, tokenHash}
	case "failed":
		return ExecutorFailed{w.run(a.Word(0)), api.ReasonFetchFailed, message}
	case "exited":
		return ExecutorExited{w.run(a.Word(0)), message}
	case "groupsgone":
		gone := GroupsGone{Run: w.run(a.Word(0)), Message: message}
		if message != "" {
			gone.Reason = api.ReasonMemoryLimit
		}
		return gone
	case "subscribe":
		return w.subscribe(a)
	case "status":
		return ExecutorCalled{Conn(a.Number(w.t, "conn")), []protocol.ExecutorCall{w.execStatus(a.Words, a)}}
	case "hangup":
		return ExecutorClosed{Conn(a.Number(w.t, "conn"))}
	case "prepared":
		return TaskPrepared{Task: w.prepared(a), Image: a.Named["image"]}
	case "taken":
		return TaskPrepared{Task: w.prepared(a), Reason: api.ReasonPortTaken, Message: message}
	case "unprepared":
		return TaskPrepared{Task: w.prepared(a), Reason: api.ReasonFetchFailed, Message: message}
	case "disk":
		return DiskRoom{Full: a.Word(0) == "full", NoInodes: a.Has("no-inodes")}
	case "measured":
		return w.measured(a)
	case "destroyed":
		return VolumeDestroyed{Volume: api.VolumeID(a.Word(0)), Generation: generationOf(a), Err: a.Named["err"]}
	case "sample":
		return w.sampled(a)
	case "away":
		return Away{w.duration(a.Word(0))}
	}
	w.t.Fatalf("unknown event %v", a)
	return nil
}

// leaderClosed reads "closed [removed] [conn=]".
func (w *world) leaderClosed(a transcript.Line) Happening {
	closed := LeaderClosed{Conn: w.conn, Removed: a.Word(0) == "removed"}
	if n := a.Number(w.t, "conn"); n > 0 {
		closed.Conn = Conn(n)
	}
	return closed
}

// measured reads "measured F/T=MB VOLUME=MB ...": the sizes of the tasks' sandboxes and of volumes.
func (w *world) measured(a transcript.Line) Happening {
	sizes := Measured{map[api.TaskRef]int64{}, map[api.VolumeID]int64{}}
	for name := range a.Named { // order: irrelevant because maps are made of it
		bytes := int64(a.Number(w.t, name)) << 20
		if strings.Contains(name, "/") {
			sizes.Sandboxes[w.ref(name)] = bytes
		} else {
			sizes.Volumes[api.VolumeID(name)] = bytes
		}
	}
	return sizes
}

// sampled reads "sample F/E F/T=CPUS/MEM ...": what the tasks of an executor use.
func (w *world) sampled(a transcript.Line) Happening {
	usage := protocol.UsageReport{
		Total: api.Usage{At: w.now}, Executors: map[api.ExecutorRef]api.Usage{}, Tasks: map[api.TaskRef]api.Usage{},
	}
	var sum api.Usage
	for name, use := range a.Named { // order: irrelevant because it is a sum
		cpus, mem, _ := strings.Cut(use, "/")
		one := api.Usage{CPU: w.milli(cpus), Mem: w.milli(mem)}
		if name != "own" { // the use of the executor itself, or of tasks without processes
			usage.Tasks[w.ref(name)] = one
		}
		sum.CPU, sum.Mem = sum.CPU+one.CPU, sum.Mem+one.Mem
	}
	usage.Executors[w.xref(a.Word(0))] = sum
	usage.Total.CPU, usage.Total.Mem = sum.CPU, sum.Mem
	return Sampled{usage}
}

func (w *world) milli(text string) api.Milli {
	amount, err := api.ParseMilli(text)
	if err != nil {
		w.t.Fatal(err)
	}
	return amount
}

func (w *world) subscribe(a transcript.Line) Happening {
	s := protocol.SubscribeExecutor{ExecutorRef: w.xref(a.Word(0)), Token: "token", Version: a.Named["version"]}
	if token := a.Named["token"]; token != "" {
		s.Token = token
	}
	for _, task := range a.List("tasks") {
		s.Tasks = append(s.Tasks, api.TaskID(task))
	}
	if len(a.Words) > 1 {
		s.Unacknowledged = append(s.Unacknowledged, w.execStatus(a.Words[1:], a))
	}
	return ExecutorOpened{Conn(a.Number(w.t, "conn")), s}
}

// execStatus reads "TASK STATE [n=] [group=] [exit=]".
func (w *world) execStatus(words []string, a transcript.Line) protocol.ExecutorStatus {
	state, err := api.ParseTaskState(words[1])
	if err != nil {
		w.t.Fatal(err)
	}
	s := protocol.ExecutorStatus{Task: api.TaskID(words[0]), State: state, Number: a.Number(w.t, "n"), ProcessGroup: int(a.Number(w.t, "group"))}
	if s.ProcessGroup != 0 {
		s.ProcessStart = 200
	}
	if text, ok := a.Named["exit"]; ok {
		code, _ := strconv.Atoi(text)
		s.ExitCode = &code
	}
	return s
}

// leaderSaid reads "leader WHAT ... [term=] [session=] [conn=]".
func (w *world) leaderSaid(a transcript.Line) Happening {
	batch := protocol.AgentEvents{Term: w.term, Session: w.sess}
	if n := a.Number(w.t, "term"); n > 0 {
		batch.Term = api.Term{Number: n}
	}
	if n := a.Number(w.t, "epoch"); n > 0 {
		batch.Term.Epoch = n
	}
	if n := a.Number(w.t, "session"); n > 0 {
		batch.Session = n
	}
	conn := w.conn
	if n := a.Number(w.t, "conn"); n > 0 {
		conn = Conn(n)
	}
	batch.Events = []protocol.AgentEvent{w.agentEvent(a.Shift(), &batch)}
	return LeaderSaid{conn, batch}
}

func (w *world) agentEvent(a transcript.Line, batch *protocol.AgentEvents) protocol.AgentEvent {
	switch a.Verb {
	case "registered":
		w.term, w.sess = batch.Term, batch.Session
		cluster := "c1"
		if a.Named["cluster"] != "" {
			cluster = a.Named["cluster"]
		}
		return protocol.AgentRegistered{Cluster: api.ClusterID(cluster), Agent: "agent-1", HeartbeatInterval: time.Minute, SessionTimeout: 5 * time.Minute}
	case "reported":
		return protocol.Reported{}
	case "pong":
		beat := time.Duration(a.Number(w.t, "beat")) * time.Minute
		return protocol.AgentPong{HeartbeatInterval: beat, SessionTimeout: 5 * beat}
	case "launch":
		return w.launch(a)
	case "group": // leader group TASK... number= [OPTIONS of-task=]: the options are for that task, or for all of them
		return w.launchGroup(a)
	case "kill":
		return protocol.KillTask{TaskRef: w.ref(a.Word(0)), Grace: w.duration(a.Named["grace"]), Reason: api.ReasonKilledByFramework}
	case "ack":
		return protocol.AcknowledgeStatus{TaskRef: w.ref(a.Word(0)), Number: a.Number(w.t, "n")}
	case "again":
		return protocol.SendAgain{TaskRef: w.ref(a.Word(0))}
	case "shutdown":
		return protocol.ShutdownAgentExecutor{ExecutorRef: w.xref(a.Word(0))}
	case "remove":
		return protocol.RemoveFramework{Framework: api.FrameworkID(a.Word(0))}
	case "drain":
		return protocol.Drain{On: a.Word(0) == "on", Grace: w.duration(a.Named["grace"])}
	case "gone":
		return protocol.AgentGone{Why: "operator"}
	case "volume":
		return protocol.CreateVolume{Volume: protocol.Volume{Resource: volumeOf(a.Word(0)), Generation: generationOf(a)}}
	case "secrets": // leader secrets TASK [why=]: the secrets that it needs, or why it does not get them
		return protocol.TaskSecrets{TaskRef: w.ref(a.Word(0)), Why: a.Named["why"]}
	case "destroy":
		return protocol.DestroyVolume{Volume: api.VolumeID(a.Word(0)), Generation: generationOf(a)}
	}
	w.t.Fatalf("the leader can't say %v", a)
	return nil
}

func (w *world) launchGroup(a transcript.Line) protocol.AgentEvent {
	var group protocol.LaunchGroup
	for i, word := range a.Words {
		one := transcript.Line{Words: []string{word}, Named: maps.Clone(a.Named)}
		if only := a.Named["of-task"]; only != "" && only != word {
			one.Named = map[string]string{}
		}
		launch := w.launch(one).(protocol.LaunchTask)
		launch.Number = a.Number(w.t, "number") + uint64(i)
		if i > 0 {
			launch.ExecutorResources = api.Resources{} // the first one starts it
		}
		group.Tasks = append(group.Tasks, launch)
	}
	return group
}

func (w *world) launch(a transcript.Line) protocol.AgentEvent {
	ref := w.ref(a.Word(0))
	task := api.Task{ID: ref.Task, Resources: api.Scalars(1, 32), Command: &api.Command{Shell: "true", User: a.Named["user"]}}
	task.Image = a.Named["image"]
	if uri := a.Named["uri"]; uri != "" {
		task.Command.URIs = []api.URI{{Source: uri}}
	}
	launch := protocol.LaunchTask{
		Framework: api.Framework{ID: ref.Framework, Name: "fw"}, Role: "default", Resources: task.Resources, Number: a.Number(w.t, "number"),
	}
	if own := a.Named["executor"]; own != "" {
		task.Executor = &api.Executor{ID: api.ExecutorID(own), Command: api.Command{Argv: []string{"x"}, User: a.Named["user"]}}
		if a.Named["resources"] != "" {
			task.Executor.Resources = api.Scalars(0.1, 32)
		}
		if id := a.Named["holds"]; id != "" {
			task.Executor.Resources = api.NewResources(volumeOf(id))
		}
		if a.Named["resources"] == "new" || a.Named["holds"] != "" {
			launch.ExecutorResources = task.Executor.Resources
		}
	}
	if a.Has("revocable") {
		task.Resources = task.Resources.AsRevocable()
		launch.Resources = task.Resources
	}
	if id := a.Named["volume"]; id != "" {
		task.Resources = task.Resources.Plus(api.NewResources(volumeOf(id)))
		launch.Resources = task.Resources
	}
	if mb := a.Number(w.t, "disk"); mb > 0 {
		disk := api.Resource{Label: api.Label{Name: "disk"}, Scalar: api.Milli(mb * 1000)}
		task.Resources = task.Resources.Plus(api.NewResources(disk))
		launch.Resources = launch.Resources.Plus(api.NewResources(disk))
	}
	if port := a.Number(w.t, "port"); port > 0 {
		ports := api.NewResources(api.Resource{Label: api.Label{Name: "ports"}, Ranges: api.NewRanges(api.Range{Begin: port, End: port})})
		task.Resources, launch.Resources = task.Resources.Plus(ports), launch.Resources.Plus(ports)
		task.Ports = map[string]uint16{"http": uint16(port)}
	}
	if text := a.Named["gpus"]; text != "" {
		gpus := api.NewResources(api.Resource{Label: api.Label{Name: api.GPUs}, Scalar: w.milli(text)})
		task.Resources, launch.Resources = task.Resources.Plus(gpus), launch.Resources.Plus(gpus)
	}
	for i, id := range a.List("secrets") { // these are variables
		task.Secrets = append(task.Secrets, api.Secret{ID: api.SecretID(id), Env: "SECRET_" + strconv.Itoa(i)})
	}
	for _, id := range a.List("secret-files") {
		task.Secrets = append(task.Secrets, api.Secret{ID: api.SecretID(id), File: api.SecretID(id).Name()})
	}
	task.MaxCompletionTime = w.duration(a.Named["longest"])
	launch.Task = task
	return launch
}

// gpusHold checks that no two tasks have the same GPU, and that every free GPU can be given.
func (w *world) gpusHold() {
	held := map[uint32]api.TaskRef{}
	for ref, t := range w.core.state.tasks { // order: irrelevant because any one is enough
		if t.ended() {
			continue
		}
		for _, index := range t.launch.GPUs {
			if other, taken := held[index]; taken {
				w.t.Fatalf("GPU %d is both %s's and %s's", index, other, ref)
			}
			held[index] = ref
		}
		if len(t.launch.GPUs) != t.gpusAsked() {
			w.t.Fatalf("%s has asked for %d GPUs and has %v", ref, t.gpusAsked(), t.launch.GPUs)
		}
	}
	if !maps.Equal(held, w.core.state.gpus) {
		w.t.Fatalf("the agent takes for given %v, and given are %v", w.core.state.gpus, held)
	}
}

// groupsHold checks what a group promises once everything is on disk: when one of its tasks has ended badly, each of
// the others has ended or is being killed (R46).
func (w *world) groupsHold() {
	if len(w.core.disk.waiting) > 0 {
		return
	}
	for id, group := range w.core.state.groups { // order: irrelevant because any one is enough
		if !slices.ContainsFunc(group, (*task).endedBadly) {
			continue
		}
		for _, t := range group {
			if !t.ended() && t.kill == nil {
				w.t.Fatalf("one of %s has ended badly, and %s goes on", id, t.ref)
			}
		}
	}
}

// volumeOf is a volume of 1 MB.
func volumeOf(id string) api.Resource {
	return api.Resource{Label: api.Label{Name: "disk", Reserved: "r", Volume: api.VolumeID(id)}, Scalar: 1000}
}

// generationOf reads of which generation a volume is; the first one is not written.
func generationOf(a transcript.Line) uint64 {
	generation, err := strconv.ParseUint(cmp.Or(a.Named["of"], "1"), 10, 64)
	if err != nil {
		panic(err)
	}
	return generation
}
