package frameworktest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/words"
)

// Client returns the framework's Client, as the scheduler got it. It waits until there is a session.
func (f *Framework) Client() *framework.Client {
	f.handle.t.Helper()
	var client *framework.Client
	f.handle.Await(f.host+" to have a session", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		client = f.client
		return client != nil
	})
	return client
}

// ExpectCount fails the test unless exactly n tasks are in one of the states, according to what the scheduler was told
// last.
func (f *Framework) ExpectCount(n int, states ...api.TaskState) {
	f.handle.t.Helper()
	if got := f.Count(states...); got != n {
		f.handle.failStory("at %v: %s of %s should be %s, %d are; all: %s", f.handle.Now(), words.Count(n, "task"), f.host, join(states), got, f.tallyStates())
	}
}

// ExpectLife fails the test unless the scheduler was told exactly these states of the task, in this order; repeats do
// not count.
func (f *Framework) ExpectLife(task api.TaskID, states ...api.TaskState) {
	f.handle.t.Helper()
	var got []api.TaskState
	for _, status := range f.Statuses(task) {
		if len(got) == 0 || got[len(got)-1] != status.State {
			got = append(got, status.State)
		}
	}
	if !slices.Equal(got, states) {
		f.handle.failStory("at %v: the life of %s was %v, it should have been %v\n%s", f.handle.Now(), task, got, states, f.handle.Story(f.refOf(task)))
	}
}

// ExpectReason fails the test unless the last status of the task has this reason.
func (f *Framework) ExpectReason(task api.TaskID, reason api.Reason) {
	f.handle.t.Helper()
	list := f.Statuses(task)
	if len(list) == 0 || list[len(list)-1].Reason != reason {
		f.handle.failStory("at %v: the last word on %s should be for %s\n%s", f.handle.Now(), task, reason, f.handle.Story(f.refOf(task)))
	}
}

// AwaitOffers waits until the scheduler has been offered something n times since it started.
func (f *Framework) AwaitOffers(n int) {
	f.handle.t.Helper()
	f.handle.Await(f.host+" to have got "+words.Count(n, "offer"), func() bool { return f.Offered() >= n })
}

// Offered returns the number of offers that the scheduler has got since it started.
func (f *Framework) Offered() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.offered
}

// Rescinded returns the number of offers that the scheduler was told are gone: rescinded, expired, or of a session that
// has ended.
func (f *Framework) Rescinded() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rescinded
}

// Never lets the time pass and fails the test as soon as the condition holds. what describes the condition in the
// failure.
func (h *Handle) Never(d time.Duration, what string, condition func() bool) {
	h.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if condition() {
			h.t.Fatalf("at %v: %s, which should never be\n%s", h.Now(), what, h.Describe())
		}
		h.Advance(min(pollEvery, time.Until(end)))
	}
}

// tallyStates counts the tasks by the last state that the scheduler was told, in words.
func (f *Framework) tallyStates() string {
	counts := make(map[api.TaskState]int)
	for _, state := range f.States() { // order: irrelevant because they are counted
		counts[state]++
	}
	var parts []string
	for state := api.TaskUnspecified; state <= api.TaskUnknown; state++ {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func contains(list []string, wanted ...string) bool {
	return slices.ContainsFunc(wanted, func(s string) bool { return slices.Contains(list, s) })
}
