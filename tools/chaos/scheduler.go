package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
)

const (
	again       = ".again" // appended to the name of a proof: its task was started a second time
	errand      = "errand" // the file that says what one task is to do, and on which agent
	nap         = "sleep 0.4"
	stay        = "exec sleep 100000"
	inFlightMax = 4
	settleEvery = time.Second

	restAfterDrop = 100 * time.Millisecond // while a disk is full
)

// scheduler launches short tasks until there is a file named stop. Each task makes a file that must not exist yet,
// which proves that it has run, and only once.
type scheduler struct {
	dir, name string
	journal   *journal
	client    *framework.Client

	mu       sync.Mutex
	inFlight map[api.TaskID]bool // guarded by mu
	launched int                 // guarded by mu
	sent     string              // the last errand that was given to a task; guarded by mu
	dropped  time.Time           // when a task was last dropped; guarded by mu
	begun    sync.Once
	ctx      context.Context // the context of the process; work begins with the first subscription
}

func schedule(ctx context.Context, dir, name string, masters []string) error {
	j, err := openJournal(filepath.Join(dir, "journal"))
	if err != nil {
		return err
	}
	s := &scheduler{dir: dir, name: name, journal: j, inFlight: map[api.TaskID]bool{}, ctx: ctx}
	token, err := os.ReadFile(filepath.Join(dir, schedulerToken))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the cluster has no certificates
		return err
	}
	config := framework.Config{Name: "chaos", Token: strings.TrimSpace(string(token)), Masters: masters, Standby: true, FailoverTimeout: time.Hour}
	for {
		err := framework.Run(ctx, config, s)
		if !errors.Is(err, framework.ErrFenced) {
			return err
		}
	}
}

// Subscribed starts the work beside offers.
func (s *scheduler) Subscribed(_ context.Context, client *framework.Client) error {
	s.client = client
	s.mu.Lock()
	clear(s.inFlight) // their ends may have been told to the other instance
	s.mu.Unlock()
	s.begun.Do(func() {
		for id := range clerksEach {
			go s.clerk(id)
		}
		go s.settle()
	})
	return s.journal.say("active", s.name, strconv.Itoa(os.Getpid()))
}

func (s *scheduler) stopping() bool { return s.told("stop") }

// told says whether a file exists that tells us something.
func (s *scheduler) told(what string) bool {
	_, err := os.Stat(filepath.Join(s.dir, what))
	return err == nil
}

// Offers launches one task on each offer, up to the limit. The rest is offered again soon.
func (s *scheduler) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var answers []api.Answer
	errand, agent, work := s.errand()
	most := inFlightMax
	if s.told(greedy) && time.Since(s.dropped) < restAfterDrop {
		most = 0 // the next task would be dropped too
	}
	for _, offer := range offers {
		sent := agent == offer.Hostname
		if agent != "" && !sent || agent == "" && len(s.inFlight) >= most || s.stopping() {
			answers = append(answers, api.Decline(offer, 200*time.Millisecond))
			continue
		}
		answer, launched := s.launch(offer, work, filepath.Join(s.dir, "proof"))
		if !launched {
			continue
		}
		if sent {
			s.sent, agent, work = errand, "", nap
		}
		answers = append(answers, answer)
	}
	return answers
}

// errand returns what a task on one agent is to do before any other task, if there is an errand.
func (s *scheduler) errand() (id, agent, work string) {
	text, err := os.ReadFile(filepath.Join(s.dir, errand))
	words := strings.SplitN(string(text), " ", 3)
	if err != nil || len(words) < 3 || words[0] == s.sent {
		return "", "", nap
	}
	return words[0], words[1], words[2]
}

// launch answers an offer with a task. It launches none if that can't be written to the journal, because nobody would
// know of it. proofs is the folder for the task's proof; "": its sandbox.
func (s *scheduler) launch(offer api.Offer, work, proofs string) (answer api.Answer, launched bool) {
	s.launched++
	id := api.TaskID(fmt.Sprintf("%s-%d-%d", s.name, os.Getpid(), s.launched))
	if s.journal.say("launch", string(id), offer.Hostname) != nil {
		return answer, false
	}
	s.inFlight[id] = true
	answer = api.Launch(offer, taskOf(id, work, filepath.Join(proofs, string(id))))
	answer.Filter.Refuse = -1
	return answer, true
}

func taskOf(id api.TaskID, work, proof string) api.Task {
	// With -C the shell opens with O_EXCL, so a second start fails and leaves a mark.
	line := fmt.Sprintf("set -C; true > %s || { true > %s%s; exit 9; }; %s", proof, proof, again, work)
	mem := 16.0
	if work != nap && work != stay {
		mem = 256 // more than the small disk has, which is memory that counts as the task's when the task writes to it
	}
	return api.Task{ID: id, Resources: api.Scalars(0.1, mem), Command: &api.Command{Shell: line}}
}

// Update writes a status to the journal before it is acknowledged.
func (s *scheduler) Update(_ context.Context, status api.Status) error {
	what, args := "running", []string{string(status.Task)}
	switch {
	case status.State.Terminal() || status.State == api.TaskUnknown && s.stopping():
		what, args = "end", append(args, status.State.String())
		s.mu.Lock()
		delete(s.inFlight, status.Task)
		if status.State == api.TaskDropped {
			s.dropped = time.Now()
		}
		s.mu.Unlock()
	case status.State != api.TaskRunning:
		return nil
	}
	return s.journal.say(what, args...)
}

// settle asks, after the end of the run has begun, for all tasks whose end is not in the journal. When there are none
// it writes down what the store contains.
func (s *scheduler) settle() {
	for ; s.ctx.Err() == nil; pause(s.ctx, settleEvery) {
		if !s.stopping() {
			continue
		}
		all, err := readLedger(filepath.Join(s.dir, "journal"))
		if err != nil || all.settled {
			continue
		}
		if open := all.open(); len(open) > 0 {
			ids := make([]api.TaskID, len(open))
			for i, id := range open {
				ids[i] = api.TaskID(id)
			}
			_ = s.client.Reconcile(ids...) // an error means the next round asks again
			continue
		}
		if s.journal.say("list") != nil {
			continue
		}
		entries, err := s.client.Store().List(s.ctx, "")
		if err != nil {
			continue
		}
		for _, e := range entries {
			_ = s.journal.say("store", e.Key, strconv.FormatUint(e.Version, 10), string(e.Value))
		}
		_ = s.journal.say("settled", s.name)
	}
}

func readLedger(name string) (*ledger, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	l := newLedger()
	entries, err := (&follower{file: file}).read()
	for _, e := range entries {
		l.add(e)
	}
	return l, err
}

// pause lets time pass.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
