package top

import (
	"context"
	"maps"
	"sync"
	"time"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
)

// jobsAgain is the time after which jobs are asked for again where no job manager answers.
const jobsAgain = 3 * time.Second

// feed hears what changes, beside the terminal, until the next frame takes it.
type feed struct {
	copy client.Copy
	news *client.News
	told chan struct{} // has a value when something below has changed

	mu sync.Mutex
	state
}

// state is how the feed stands.
type state struct {
	err     error                       // why the watch has ended
	waits   error                       // why nothing is heard at the moment
	jobs    map[string]*apiv1.JobStatus // never edited; nil: not heard of yet
	jobsWhy string                      // why no jobs are heard of
}

func newFeed() *feed {
	f := &feed{told: make(chan struct{}, 1)}
	f.news = f.copy.News()
	return f
}

// now returns how the feed stands.
func (f *feed) now() state {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// set changes how the feed stands.
func (f *feed) set(change func(*state)) {
	f.mu.Lock()
	change(&f.state)
	f.mu.Unlock()
	select {
	case f.told <- struct{}{}:
	default:
	}
}

// waiting notes why nothing is heard at the moment.
func (f *feed) waiting(err error) { f.set(func(s *state) { s.waits = err }) }

// keep hears what changes until ctx ends or the watch fails.
func (f *feed) keep(ctx context.Context, c *client.Client) {
	ctx, end := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer end()
	beside.Go(func() { f.keepJobs(ctx, c) })
	request := &apiv1.WatchRequest{Kinds: []string{nouns.Masters.Watched()}}
	for _, kind := range Kinds() {
		if kind.Watched() != "" {
			request.Kinds = append(request.Kinds, kind.Watched())
		}
	}
	for news, err := range c.Watch(ctx, request) {
		if err != nil {
			f.set(func(s *state) { s.err = err })
			return
		}
		f.copy.Take(news)
		f.set(func(s *state) { s.waits = nil })
	}
}

// keepJobs hears of jobs until ctx ends. Their managers know them, and not the masters, so they have a watch of their
// own.
func (f *feed) keepJobs(ctx context.Context, c *client.Client) {
	for ctx.Err() == nil {
		err := f.hearJobs(ctx, c)
		f.set(func(s *state) { s.jobs, s.jobsWhy = map[string]*apiv1.JobStatus{}, client.Error(err).Error() })
		pause.For(ctx, jobsAgain)
	}
}

// hearJobs hears one watch of jobs, and returns why it has ended.
func (f *feed) hearJobs(ctx context.Context, c *client.Client) error {
	stream, err := c.Jobs().WatchJobs(ctx, &apiv1.WatchJobsRequest{})
	if err != nil {
		return err
	}
	jobs := make(map[string]*apiv1.JobStatus)
	for {
		news, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, job := range news.GetItems() {
			jobs[job.GetName()] = job
		}
		for _, name := range news.GetRemovedNames() {
			delete(jobs, name)
		}
		if news.GetComplete() {
			f.set(func(s *state) { s.jobs, s.jobsWhy = maps.Clone(jobs), "" })
		}
	}
}
