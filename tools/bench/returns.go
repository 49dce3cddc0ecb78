package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/tools/devcluster"
)

// returnTime is how long tasks come and go on a full cluster.
const returnTime = 20 * time.Second

// returns keeps a cluster full of short tasks of two frameworks that always want more, and takes from the leader's own
// metric the time from what a task gives back to the next offer of it.
func returns(ctx context.Context, cluster *devcluster.Cluster, _ options) error {
	self, err := executor.Self("sleeper")
	if err != nil {
		return err
	}
	before, err := histogram(ctx, cluster, "tender_offer_return_seconds")
	if err != nil {
		return err
	}
	timed, cancel := context.WithTimeout(ctx, returnTime)
	defer cancel()
	ended := make(chan error, 2)
	for _, name := range []string{"hungry-1", "hungry-2"} {
		config := framework.Config{Name: name, Masters: strings.Split(cluster.MasterAddresses(), ","), TeardownAtEnd: true}
		go func() { ended <- framework.Run(timed, config, &hungry{name: name, self: self}) }()
	}
	if err := errors.Join(<-ended, <-ended); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	after, err := histogram(ctx, cluster, "tender_offer_return_seconds")
	if err != nil {
		return err
	}
	h := after.less(before)
	row("full cluster, tasks coming and going: from a return's arrival at the master to its next offer on its way",
		fmt.Sprintf("p50 %.2f ms, p99 %.2f ms", 1000*h.quantile(0.5), 1000*h.quantile(0.99)),
		fmt.Sprintf("%.0f returns that were offered, %.0f a second", h.count(), h.count()/returnTime.Seconds()))
	return nil
}

// hungry is a scheduler that launches a short task on each cpu that it can get.
type hungry struct {
	name string
	self *api.Executor
	next int
}

var hungryTask = api.Scalars(1, 64)

func (h *hungry) Subscribed(_ context.Context, client *framework.Client) error {
	return client.Demand(api.Demand{Shapes: []api.Shape{{Resources: hungryTask, Count: 1_000_000}}})
}

func (h *hungry) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	answers := make([]api.Answer, 0, len(offers))
	for _, offer := range offers {
		fit := int(offer.Resources.Scalar("cpus") / hungryTask.Scalar("cpus"))
		tasks := make([]api.Task, fit)
		for i := range tasks {
			h.next++
			tasks[i] = api.Task{
				ID: api.TaskID(fmt.Sprintf("%s-%d", h.name, h.next)), Resources: hungryTask, Executor: h.self,
				Data: []byte(strconv.Itoa(100 + rand.IntN(600))),
			}
		}
		answer := api.Launch(offer, tasks...)
		answer.Filter = api.NoFilter
		answers = append(answers, answer)
	}
	return answers
}

func (h *hungry) Update(context.Context, api.Status) error { return nil }

// sleep is such a task: its data says for how many milliseconds; or it is one that floods.
func sleep(ctx context.Context, task *executor.Task) error {
	switch string(task.Data) {
	case "":
		return nil
	case floodWord:
		return floodTask(ctx, task)
	}
	span, err := strconv.Atoi(string(task.Data))
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(span) * time.Millisecond):
	}
	return nil
}

// buckets are a histogram of Prometheus: how many were at most so much, summed over
// the masters.
type buckets map[float64]float64

// histogram reads one from all masters: who does not lead counts nothing.
func histogram(ctx context.Context, cluster *devcluster.Cluster, name string) (buckets, error) {
	sum := buckets{}
	for _, master := range cluster.Masters {
		err := metrics(ctx, master, name+`_bucket{le="`, func(bound string, count float64) error {
			at, err := strconv.ParseFloat(strings.TrimSuffix(bound, `"}`), 64)
			sum[at] += count
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return sum, nil
}

// metrics calls take with the rest of the name and the value of each metric of a master that begins so.
func metrics(ctx context.Context, master devcluster.Node, beginning string, take func(rest string, value float64) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+master.HTTP+"/metrics", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		rest, found := strings.CutPrefix(name, beginning)
		if !found {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err := errors.Join(err, take(rest, value)); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (b buckets) less(before buckets) buckets {
	rest := buckets{}
	for at, n := range b {
		rest[at] = n - before[at]
	}
	return rest
}

func (b buckets) and(more buckets) buckets {
	sum := maps.Clone(more)
	for at, n := range b {
		sum[at] += n
	}
	return sum
}

func (b buckets) count() float64 {
	bounds := slices.Sorted(maps.Keys(b))
	if len(bounds) == 0 {
		return 0
	}
	return b[bounds[len(bounds)-1]]
}

// quantile is the bound of the bucket in which the share q of all is reached: never
// less than the true value.
func (b buckets) quantile(q float64) float64 {
	for _, at := range slices.Sorted(maps.Keys(b)) {
		if b[at] >= q*b.count() {
			return at
		}
	}
	return 0
}
