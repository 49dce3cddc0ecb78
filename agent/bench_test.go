package agent

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	launcher "github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/executor/fake"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/processor"
)

// BenchmarkLives runs tasks that do nothing through one agent with its checkpoint on
// disk: launch, RUNNING, FINISHED, both acknowledged. Master and executor are in the
// same process, so their work counts too.
func BenchmarkLives(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan struct{}, 1<<16)
	master := serveScript(b, listener, time.Hour)
	master.hook = func(call protocol.AgentCall) {
		if update, is := call.(protocol.StatusUpdate); is && update.Status.State == api.TaskFinished {
			ended <- struct{}{}
		}
	}
	fakes := &fake.Launcher{Run: func(ctx context.Context, start launcher.Start) error {
		config := executor.Config{Socket: start.Socket, Framework: start.Run.Framework, ID: start.Run.Executor, Token: start.Token, Sandbox: start.Sandbox}
		return executor.Serve(ctx, config, executor.Functions(func(context.Context, *executor.Task) error { return nil }))
	}}
	config := Config{
		Masters: []string{master.address}, Hostname: "h1", Port: -1, Resources: api.Scalars(4, 4096), DataDir: filepath.Join(b.TempDir(), "agent"),
		World: World{Launcher: fakes},
	}
	agent, err := New(config)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx) }()
	await(master, "heartbeat", func(protocol.AgentHeartbeat) bool { return true })
	const flying = 1000
	before := processor.Own(b)
	b.ResetTimer()
	launched := 0
	for finished := 0; finished < b.N; {
		var batch []protocol.AgentEvent
		for ; launched < b.N && launched-finished < flying; launched++ {
			batch = append(batch, master.launching(own(api.TaskID(fmt.Sprint("t", launched)))))
		}
		if len(batch) > 0 {
			master.say(batch...)
		}
		<-ended
		for finished++; len(ended) > 0; finished++ {
			<-ended
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lives/s")
	b.ReportMetric(float64((processor.Own(b)-before).Nanoseconds())/float64(b.N)/1000, "cpu-us/life")
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
	if err := fakes.KillEverything(context.Background()); err != nil {
		b.Error(err)
	}
}
