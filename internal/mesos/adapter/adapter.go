// Package adapter is the executor, `tender adapter`, below which an executor that was written for Apache Mesos
// runs: it starts the old executor's command with the environment that Mesos gives, answers /api/v1/executor and the
// routes of an agent that such executors read on loopback, and speaks the session of Tender's executors with its agent.
//
// What it must know of Mesos comes with each task ([envelope.Launch]); with the first one it fetches the executor's
// files and starts its command. It never keeps anything on disk: it and the old executor outlive the agent's process,
// and neither outlives the other. Only processes of its own user reach its port.
package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/mesos/envelope"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
)

// registrationTimeout is how long the old executor may take to subscribe. Mesos's default.
const registrationTimeout = time.Minute

// Config says whom the adapter serves, and where. Zero fields have the defaults of a process that an agent has started.
type Config struct {
	// Executor is the session with the agent; see [executor.Environment].
	Executor executor.Config
	// Listen opens the port for the old executor. Default: a free port of 127.0.0.1.
	Listen func() (net.Listener, error)
	// Begin fetches the old executor's files and starts it. Default: as a process in a group of its own.
	Begin func(ctx context.Context, command Command) (Program, error)
	// Environ is the environment that the old executor gets beside Mesos's variables. Tender's own are left out.
	Environ []string
	// Log takes what people should know. Default: the adapter's stderr, which is the old executor's, too.
	Log *zerolog.Logger
}

// Run serves the agent that started this process with that environment, until the old executor or the agent ends it. The
// error is an [*Exit] if the old executor has ended badly.
func Run(ctx context.Context, environ []string) error {
	config, err := executor.Environment()
	if err != nil {
		return err
	}
	return Serve(ctx, Config{Executor: config, Environ: environ})
}

// Exit says how the old executor has ended by itself: with which exit code, or 128 + the signal that ended it.
type Exit struct{ Code int }

func (e *Exit) Error() string { return fmt.Sprintf("the executor exited with %d", e.Code) }

// Serve runs the adapter with this config.
func Serve(ctx context.Context, config Config) error {
	if config.Listen == nil {
		config.Listen = func() (net.Listener, error) {
			return new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
		}
	}
	if config.Begin == nil {
		config.Begin = begin
	}
	if config.Log == nil {
		log := zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, NoColor: true}).With().Timestamp().Logger()
		config.Log = &log
	}
	listener, err := config.Listen()
	if err != nil {
		return api.E("mesos.adapter", api.Unavailable, config.Executor.ID, err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	a := &adapter{
		config: config, life: ctx, stop: stop, address: listener.Addr().String(),
		tasks: make(map[api.TaskID]*task), named: make(map[string]*task), over: make(chan struct{}),
	}
	server := a.serveHTTP(listener)
	err = executor.Serve(ctx, config.Executor, a)
	stop()
	a.awaitProgram()
	server.close()
	a.mu.Lock()
	a.phase = closed
	a.mu.Unlock()
	a.work.Wait()
	return errors.Join(err, a.failure)
}

// adapter is the handler of the agent's session and the server of the old executor.
type adapter struct {
	config      Config
	life        context.Context // ends when the adapter has to end
	stop        context.CancelFunc
	address     string         // host:port, for the old executor
	work        sync.WaitGroup // goroutines that wait for the agent or for the old executor
	over        chan struct{}  // closed when the old executor has ended, or was not started and never will be
	connections connections
	failure     error // why the adapter ends, before over is closed; nil: it was told to

	mu         sync.Mutex
	whose      whose
	tasks      map[api.TaskID]*task
	named      map[string]*task // the same, by the framework's name for them
	launches   []*task          // in the order in which they came, those that the old executor was not told yet
	program    Program          // nil: not started
	stream     *stream          // to the old executor; nil: it has none
	subscribed bool             // the old executor has subscribed before
	phase      phase
	count      int         // of the tasks that have come
	killBy     *time.Timer // SIGKILL for the old executor, when ending
}

// phase is how far the adapter's life has come. It only goes forward.
type phase int

const (
	serving phase = iota
	ending        // the agent has told it to end
	ended         // the old executor has ended, or will not be started
	closed        // no goroutine begins any more
)

// whose is what the first task says of the old executor.
type whose struct {
	executor  *mesosv1.ExecutorInfo // with its framework's ID; nil: no task has come
	framework *mesosv1.FrameworkInfo
	agent     *mesosv1.AgentInfo
	task      *executor.Task // by it messages go to the scheduler
}

// Launch takes a task over for the old executor, which the first one starts.
func (a *adapter) Launch(given *executor.Task) {
	launch := new(envelope.Launch)
	err := proto.Unmarshal(given.Data, launch)
	if err == nil && (launch.GetTask().GetExecutor().GetCommand() == nil || launch.GetFramework().GetId() == nil) {
		err = errors.New("it names no executor with a command, or no framework")
	}
	if err != nil {
		_ = given.Report(executor.Report{State: api.TaskFailed, Reason: api.ReasonTaskInvalid, Message: "the task was not made by 'tender mesos': " + err.Error()})
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count++
	t := &task{Task: given, info: launch.GetTask(), group: launch.GetGroup(), state: api.TaskStaging, number: a.count}
	if a.phase >= ended {
		a.tell(t, own(mesosv1.TaskState_TASK_FAILED, mesosv1.TaskStatus_REASON_EXECUTOR_TERMINATED, "Executor terminated"))
		return
	}
	a.tasks[given.ID], a.named[t.name()] = t, t
	a.launches = append(a.launches, t)
	if a.whose.executor == nil {
		a.whose = a.whoseIs(given, launch)
		a.spawn(a.runProgram)
	}
	a.handOver()
}

// Kill tells the old executor to end a task. One that it was not told of ends here.
func (a *adapter) Kill(given *executor.Task, grace time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.tasks[given.ID]
	if t == nil || t.state.Terminal() {
		return
	}
	if !t.handed {
		a.tell(t, own(mesosv1.TaskState_TASK_KILLED, mesosv1.TaskStatus_REASON_TASK_KILLED_DURING_LAUNCH, "Killed before it was delivered to the executor"))
		return
	}
	if grace == given.KillGrace {
		grace = 0 // the task's own, which the executor knows
	}
	t.kill = &grace
	t.state = max(t.state, api.TaskKilling)
	a.send(killEvent(t.info, grace))
}

// Message passes the scheduler's bytes on, if there is somebody to hear them. Mesos drops them otherwise, too.
func (a *adapter) Message(data []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.send(messageEvent(data))
}

// End tells the old executor to end with all its tasks. When the grace is over, it is killed.
func (a *adapter) End(grace time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.phase = max(a.phase, ending)
	if a.program == nil { // nothing runs yet, and nothing will
		a.phase = max(a.phase, ended)
		a.endTasks("Executor terminated")
		return
	}
	a.send(shutdownEvent())
	a.killBy = time.AfterFunc(cmp.Or(grace, executor.DefaultGrace), a.killProgram)
}

// killProgram kills the old executor, with all that it has started.
func (a *adapter) killProgram() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.program != nil {
		a.program.Kill()
	}
}

// spawn runs a function in a goroutine that the adapter waits for. The caller holds mu.
func (a *adapter) spawn(f func()) {
	if a.phase < closed {
		a.work.Go(f)
	}
}

// runProgram fetches the old executor's files, starts it, and ends the adapter when it has ended.
func (a *adapter) runProgram() {
	defer close(a.over)
	command := a.command()
	program, err := a.config.Begin(a.life, command)
	a.mu.Lock()
	if err == nil && a.phase > serving {
		program.Kill()
	}
	if err != nil {
		if a.phase == serving {
			a.failure = api.E("mesos.adapter", api.KindOf(err), a.config.Executor.ID, err)
		}
		a.phase = ended
		for _, t := range a.living() {
			a.tell(t, own(mesosv1.TaskState_TASK_FAILED, mesosv1.TaskStatus_REASON_CONTAINER_LAUNCH_FAILED, "Failed to launch container: "+err.Error()))
		}
		a.mu.Unlock()
		a.stop()
		return
	}
	a.program = program
	a.mu.Unlock()
	late := time.AfterFunc(registrationTimeout, a.giveUp)
	code := program.Wait()
	late.Stop()
	a.drain()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.program = nil
	if a.killBy != nil {
		a.killBy.Stop()
	}
	if code != 0 && a.phase == serving {
		a.failure = &Exit{code}
	}
	a.phase = ended
	a.endTasks("Executor terminated")
	a.stop()
}

// giveUp kills an old executor that has not subscribed in time.
func (a *adapter) giveUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.subscribed || a.program == nil {
		return
	}
	for _, t := range a.living() {
		a.tell(t, own(mesosv1.TaskState_TASK_FAILED, mesosv1.TaskStatus_REASON_EXECUTOR_REGISTRATION_TIMEOUT,
			fmt.Sprintf("Executor did not register within %v", registrationTimeout)))
	}
	a.program.Kill()
}

// awaitProgram waits for the end of the old executor. Its kill is due when the adapter has to end.
func (a *adapter) awaitProgram() {
	a.mu.Lock()
	begun := a.whose.executor != nil
	if a.program != nil && a.phase == serving {
		a.program.Kill()
	}
	a.mu.Unlock()
	if begun {
		<-a.over
	}
}
