package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tenderhq/tender/tools/devcluster"
)

// learning generates points as text on a cluster, and goes over them again and again with the logistic regression of
// examples/rdd: with the points cached, without, and with one executor killed (kill -9) in the middle. Then it counts the
// words of Go's own source. It prints the times side by side.
type learning struct {
	agents, iterations, plain int
	gb                        float64 // of points
	memory                    float64 // in MB, for each executor
	binary                    string  // the binary of tender
	programs                  string  // the binary of examples/rdd
	dir                       string  // the folder of the points
	text                      string  // the folder whose words are counted; "": Go's own source
	masters                   string
}

// pointsPerMB: a million bytes of text are that many points of ten coordinates; slightly more, to be on the safe side.
const pointsPerMB = 10_400

func (d *learning) run(ctx context.Context) (err error) {
	s, err := open(ctx, devcluster.Options{Binary: d.binary, Agents: d.agents})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	d.masters, d.dir = s.MasterAddresses(), filepath.Join(s.Dir, "points")
	if d.programs, err = build(ctx, s.Dir, "rdd/programs"); err != nil {
		return err
	}
	log.Printf("generating %g GB of points", d.gb)
	if _, err := d.drive(ctx, 0, "generate", "-points", strconv.Itoa(int(d.gb*1000*pointsPerMB)), "-dir", d.dir); err != nil {
		return err
	}
	log.Printf("%d iterations on %d executors of %g MB", d.iterations, d.agents, d.memory)
	row, err := d.compare(ctx)
	if err != nil {
		return fmt.Errorf("logreg: %w", err)
	}
	counted, err := d.wordcount(ctx)
	if err != nil {
		return fmt.Errorf("wordcount: %w", err)
	}
	fmt.Printf("\n%-8s %16s %20s %22s %8s %26s\n%s\n\n", "", "first iteration", "later ones, cached", "later ones, no cache", "times",
		"extra, executor killed", row)
	fmt.Println("wordcount:", strings.Join(counted.lines, "; "))
	return nil
}

// wordcount counts words on the cluster, and again in one process with as many goroutines as there are executors.
func (d *learning) wordcount(ctx context.Context) (run, error) {
	text := d.text
	if text == "" {
		root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return run{}, fmt.Errorf("finding Go's own source: %w", err)
		}
		if text, err = filepath.EvalSymlinks(filepath.Join(strings.TrimSpace(string(root)), "src")); err != nil {
			return run{}, err
		}
	}
	return d.drive(ctx, 0, "wordcount", "-verify", "-goroutines", strconv.Itoa(d.agents), "-top", "0", "-split", "13", text)
}

// compare runs logreg in three ways, and returns a row of the table.
func (d *learning) compare(ctx context.Context) (row string, err error) {
	cached, err := d.learn(ctx, d.iterations, true, false)
	if err != nil {
		return "", err
	}
	plain, err := d.learn(ctx, d.plain, false, false)
	if err != nil {
		return "", err
	}
	killed, err := d.learn(ctx, d.iterations, true, true)
	if err != nil {
		return "", err
	}
	if killed.result != cached.result {
		return "", fmt.Errorf("the result is another one when an executor is killed:\n%s\n%s", cached.result, killed.result)
	}
	return fmt.Sprintf("%-8s %14.2f s %18.3f s %20.2f s %8.1f %+10.2f s, same result", "logreg",
		cached.times[0].Seconds(), cached.later(), plain.later(), plain.later()/cached.later(),
		killed.times[d.iterations/2].Seconds()-cached.later()), nil // the iteration after the kill, which computes again what was lost
}

// run is the output of a program.
type run struct {
	lines  []string
	times  []time.Duration // the times of its iterations
	result string
}

// later returns the mean, in seconds, of all iterations but the first.
func (r run) later() float64 {
	var sum time.Duration
	for _, took := range r.times[1:] {
		sum += took
	}
	return sum.Seconds() / float64(max(1, len(r.times)-1))
}

// learn runs logreg. If kill is set, an executor is killed halfway, while the program pauses.
func (d *learning) learn(ctx context.Context, iterations int, cache, kill bool) (run, error) {
	args := []string{"-iterations", strconv.Itoa(iterations), "-cache=" + strconv.FormatBool(cache)}
	holds := 0
	if kill {
		holds = iterations / 2
		args = append(args, "-hold", strconv.Itoa(holds))
	}
	r, err := d.drive(ctx, holds, "logreg", append(args, d.dir)...)
	if err == nil && (len(r.times) != iterations || r.result == "") {
		err = fmt.Errorf("%d of %d iterations were told", len(r.times), iterations)
	}
	return r, err
}

// drive starts a program with the common flags, and reads its output. If the program pauses after an iteration, an
// executor is killed, and then the program continues.
func (d *learning) drive(ctx context.Context, holds int, program string, args ...string) (r run, err error) {
	common := []string{program, "-master", d.masters, "-executors", strconv.Itoa(d.agents), "-memory", fmt.Sprint(d.memory)}
	p, err := startProgram(ctx, d.programs, append(common, args...)...)
	if err != nil {
		return r, err
	}
	err = r.read(p.lines, func(iteration int) error {
		if iteration != holds {
			return nil
		}
		if err := d.killOne(p.command.Process.Pid); err != nil {
			return err
		}
		_, err := p.in.Write([]byte("\n"))
		return err
	})
	return r, errors.Join(err, p.in.Close(), p.command.Wait())
}

// read reads lines such as "iteration N: 1.234 s" and "result: ...", and shows them.
func (r *run) read(lines *bufio.Scanner, see func(iteration int) error) error {
	for lines.Scan() {
		fmt.Println("   ", lines.Text())
		r.lines = append(r.lines, lines.Text())
		var n int
		var seconds float64
		if _, err := fmt.Sscanf(lines.Text(), "iteration %d: %f s", &n, &seconds); err == nil {
			r.times = append(r.times, time.Duration(seconds*float64(time.Second)))
			if err := see(n); err != nil {
				return err
			}
		}
		if result, found := strings.CutPrefix(lines.Text(), "result: "); found {
			r.result = result
		}
	}
	return lines.Err()
}

// killOne kills one of a driver's executors.
func (d *learning) killOne(driver int) error {
	executors, err := d.executors(driver)
	if err != nil {
		return err
	}
	if len(executors) == 0 {
		return errors.New("there is no executor to kill")
	}
	fmt.Printf("    kill -9 %d, one of %d executors\n", executors[0], len(executors))
	return syscall.Kill(executors[0], syscall.SIGKILL)
}

// executors returns the processes that run the programs' binary, except the driver.
func (d *learning) executors(driver int) (pids []int, err error) {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		target, err := os.Readlink(link)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err == nil && target == d.programs && pid != driver {
			pids = append(pids, pid)
		}
	}
	return pids, err
}
