package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/prometheus/procfs"

	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust/transport"
)

const (
	// tasksEach is how many tasks stay on each agent of a cluster at which somebody looks.
	tasksEach = 10
	// lookTime is how long a view is open, and how long the leader is measured without.
	lookTime = 15 * time.Second
	// scrapes are made one after the other; a real one comes every scrapeEvery.
	scrapes     = 50
	scrapeEvery = 15 * time.Second
	// lookedBeats is the time between two heartbeats, unless a flag says otherwise: thousands of agents take more.
	lookedBeats = 5 * time.Second
)

// lookedAt measures what those cost who look at a cluster of many agents and ten times as many tasks: watchers, scrapes and
// a page that is open in a real browser.
func lookedAt(ctx context.Context, o options) error {
	o.insecure = true
	if o.heartbeat == 0 {
		o.heartbeat = lookedBeats
	}
	return withHerd(ctx, o, tasksEach, func(ctx context.Context, h *herding) error {
		leader, err := h.quorum.leader(ctx)
		if err != nil {
			return err
		}
		return errors.Join(h.watched(ctx, leader, o.runs), h.scraped(ctx, leader), h.seen(ctx, leader, o.runs))
	})
}

// quietly returns what share of a core a master takes while nothing is done: for lookTime, and on to the end of a
// collection, from the end of one. With a large heap each takes seconds, so that times which cut them differ.
func (n *node) quietly(ctx context.Context) (cores float64, err error) {
	if err := n.collected(ctx); err != nil {
		return 0, err
	}
	pid := n.process.Process.Pid
	began, before := time.Now(), ownCPU(pid)
	pause.For(ctx, lookTime)
	err = n.collected(ctx)
	return (ownCPU(pid) - before) / time.Since(began).Seconds(), err
}

// collected waits until a master has collected its garbage once more, which its runtime does after two minutes at the latest.
func (n *node) collected(ctx context.Context) error {
	log, err := os.Open(n.dir + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	if _, err := log.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	for {
		pause.For(ctx, 20*time.Millisecond)
		said, err := io.ReadAll(log)
		if err = errors.Join(err, ctx.Err()); err != nil || collection.Match(said) {
			return err
		}
	}
}

// collection is how a line begins by which the runtime tells of a collection.
var collection = regexp.MustCompile(`(?m)^gc \d+ @`)

// added is what those who look add to the leader's share of a core, in turns with nobody.
type added struct{ alone, looked, more []float64 }

func (a *added) turn(ctx context.Context, leader *node, look func() error) error {
	without, err := leader.quietly(ctx)
	if err == nil {
		err = look()
	}
	if err != nil {
		return err
	}
	with, err := leader.quietly(ctx)
	a.alone, a.looked, a.more = append(a.alone, without), append(a.looked, with), append(a.more, with-without)
	return err
}

func percents(cores []float64) string {
	return fmt.Sprintf("%.1f %% of a core (%.1f to %.1f)", 100*median(cores), 100*slices.Min(cores), 100*slices.Max(cores))
}

// watched measures ten watchers, in turns with none.
func (h *herding) watched(ctx context.Context, leader *node, turns int) error {
	var cost added
	for range turns {
		if err := h.watchedOnce(ctx, leader, &cost); err != nil {
			return err
		}
	}
	h.row("the leader, with 20 short tasks under way", percents(cost.alone), fmt.Sprintf("%.0f MB resident; load of the machine %.0f", residentMB(leader.process.Process.Pid), machineLoad()))
	h.row("ten who watch all of it add", percents(cost.more), "in turns, from one collection of its garbage to another")
	atMost("% of a core that ten watchers cost the leader", 100*median(cost.more), 2)
	return nil
}

func (h *herding) watchedOnce(ctx context.Context, leader *node, cost *added) error {
	var watchers *watchers
	err := cost.turn(ctx, leader, func() (err error) {
		watchers, err = startWatchers(ctx, 10, leader.grpc, transport.DialTCP)
		pause.For(ctx, lookTime) // what there is was told
		return err
	})
	if watchers == nil {
		return err
	}
	if broken := watchers.stop(); err == nil && broken > 0 {
		err = fmt.Errorf("%d of 10 watches have ended", broken)
	}
	return err
}

// scraped measures what metrics cost.
func (h *herding) scraped(ctx context.Context, leader *node) error {
	pid, bytes := leader.process.Process.Pid, 0
	idle, err := leader.quietly(ctx)
	if err != nil {
		return err
	}
	began, before := time.Now(), ownCPU(pid)
	for range scrapes {
		text, err := get(ctx, http.DefaultClient, "http://"+leader.http+"/metrics")
		if err != nil {
			return err
		}
		bytes = len(text)
	}
	each := (ownCPU(pid) - before - idle*time.Since(began).Seconds()) / scrapes
	atMost("% of a core that scrapes cost the leader", 100*each/scrapeEvery.Seconds(), 2)
	h.row("a scrape of the leader's metrics", fmt.Sprintf("%.1f ms of processor time, %.0f kB", 1000*each, float64(bytes)/1000),
		fmt.Sprintf("one every %v: %.2f %% of a core", scrapeEvery, 100*each/scrapeEvery.Seconds()))
	return nil
}

// get reads what is at an address.
func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s is answered %s: %s", url, response.Status, content)
	}
	return content, err
}

// seen measures 'tender ui' with a tab of a real browser at it.
func (h *herding) seen(ctx context.Context, leader *node, turns int) error {
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
		}
	}
	if browser == "" {
		h.row("the page in a browser", "not measured", "no Chromium is installed here")
		return nil
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(browser), chromedp.NoSandbox, chromedp.WindowSize(1280, 900))
	ctx, leave := chromedp.NewExecAllocator(ctx, options...)
	defer leave()
	ctx, end := chromedp.NewContext(ctx)
	defer end()
	t := &viewer{herding: h, leader: leader}
	defer t.stop()
	for _, view := range []string{"/", "/tasks"} {
		if err := t.look(ctx, view, turns); err != nil {
			return fmt.Errorf("%s: %w", view, err)
		}
	}
	h.row("the first look at a page that has just been started", fmt.Sprintf("p50 %.0f ms, max %.0f ms", ms(quantile(t.firsts, 0.5)), ms(quantile(t.firsts, 1))),
		"its watch begins with it, and the state follows")
	return nil
}

var uiLink = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?code=\w+`)

// startUI starts 'tender ui', and returns the link that lets a browser in.
func startUI(q *quorum) (*exec.Cmd, string, error) {
	ui := exec.Command(q.binary, "ui", "--no-open", "--master", strings.Join(q.addresses(), ","))
	ui.Env = append(os.Environ(), "XDG_CONFIG_HOME="+q.dir, "TENDER_CONTEXT=", "TENDER_TOKEN=") // no cluster of the person's own
	ui.Stderr = os.Stderr
	ui.SysProcAttr = ofOurs()
	said, err := ui.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := ui.Start(); err != nil {
		return nil, "", err
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if link := uiLink.FindString(lines.Text()); link != "" {
			return ui, link, nil
		}
	}
	return nil, "", errors.Join(errors.New("tender ui says no link"), lines.Err(), ui.Wait())
}

// viewer is a tab of a browser at the page of a 'tender ui'.
type viewer struct {
	*herding
	leader *node
	ui     *exec.Cmd // nil: none runs
	base   string    // the address of its page
	firsts []time.Duration
}

func (t *viewer) stop() {
	if t.ui != nil {
		_ = t.ui.Process.Kill() // it has nothing to clean up
		_ = t.ui.Wait()         // killed
		t.ui = nil
	}
}

// open starts a page's server, and opens a view of it when it knows the whole state.
func (t *viewer) open(ctx context.Context, view string) (err error) {
	var link string
	if t.ui, link, err = startUI(t.quorum); err != nil {
		return err
	}
	t.base, _, _ = strings.Cut(link, "/?")
	first, err := t.firstPaint(ctx, link)
	if err != nil {
		return err
	}
	t.firsts = append(t.firsts, first)
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](stateThere, chromedp.EvalAwaitPromise)); err != nil {
		return err
	}
	return chromedp.Do(ctx, chromedp.Navigate(t.base+view))
}

// firstPaint opens an address, and returns how long it takes until there is something to see.
func (t *viewer) firstPaint(ctx context.Context, address string) (time.Duration, error) {
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		return 0, err
	}
	first, err := chromedp.Run(ctx, chromedp.Evaluate[float64](firstPaint, chromedp.EvalAwaitPromise))
	return time.Duration(first * float64(time.Millisecond)), err
}

// look leaves a view open for a while, in turns with none and with no server of a page, and then opens it a few times.
func (t *viewer) look(ctx context.Context, view string, turns int) error {
	what := "the page at " + view
	var cost added
	var pages []int
	var draws []float64
	for range turns {
		t.stop()
		var began time.Time
		var drawn float64
		err := cost.turn(ctx, t.leader, func() error {
			err := t.open(ctx, view)
			pages = renderers(chromedp.FromContext(ctx).Browser.Process().Pid)
			began, drawn = time.Now(), cpuOfAll(pages)
			return err
		})
		if err != nil {
			return err
		}
		draws = append(draws, (cpuOfAll(pages)-drawn)/time.Since(began).Seconds())
	}
	memory := 0.0
	for _, pid := range pages {
		memory += ownMB(pid)
	}
	t.row(what+": the tab", fmt.Sprintf("%.0f MB, %s", memory, percents(draws)), fmt.Sprintf("%d processes draw; the leader takes more: %s", len(pages), percents(cost.more)))
	var firsts []time.Duration
	for range max(turns, 3) {
		first, err := t.firstPaint(ctx, t.base+view)
		if err != nil {
			return err
		}
		firsts = append(firsts, first)
	}
	t.row(what+": first content", fmt.Sprintf("p50 %.0f ms, max %.0f ms", ms(quantile(firsts, 0.5)), ms(quantile(firsts, 1))), "from the click, over loopback")
	patch, err := t.patch(ctx)
	if err != nil {
		return err
	}
	t.row(what+": a patch", fmt.Sprintf("%.1f ms of the server's processor time, the watch included", patch), fmt.Sprintf("the server has %.0f MB", residentMB(t.ui.Process.Pid)))
	atMost("ms to the first content of "+view, ms(quantile(firsts, 0.5)), 300)
	atMost("ms of the server for a patch of "+view, patch, 50)
	atMost("MB of a tab at "+view, memory, 200)
	atMost("% of a core that it takes", 100*median(draws), 20)
	atMost("% of a core that it costs the leader", 100*median(cost.more), 2)
	return nil
}

// patch returns how many milliseconds the server takes to see whether there is something to send, and to send it. The tab
// asks for what it is sent once more, to count also when that is nothing: so there are two tabs.
func (t *viewer) patch(ctx context.Context) (float64, error) {
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](countLooks)); err != nil {
		return 0, err
	}
	began, before := time.Now(), ownCPU(t.ui.Process.Pid)
	pause.For(ctx, lookTime)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	took := time.Since(began)
	looks, err := chromedp.Run(ctx, chromedp.Evaluate[float64]("window.looks"))
	if err == nil && looks == 0 {
		err = fmt.Errorf("the tab was sent nothing for %v", took)
	}
	return 1000 * (ownCPU(t.ui.Process.Pid) - before) / (2 * looks), err
}

// countLooks is a script that counts what the page's server sends.
const countLooks = `window.looks = 0, fetch(document.body.dataset.events).then(async answer => {
	for (const reader = answer.body.getReader(), decoder = new TextDecoder(); ;) {
		const { done, value } = await reader.read();
		if (done) return;
		window.looks += decoder.decode(value, { stream: true }).split("\n\n").length - 1;
	}
}), true`

// firstPaint is a script that says after how many milliseconds the first content was painted.
const firstPaint = `new Promise(resolve => new PerformanceObserver((list, observer) => {
	for (const entry of list.getEntriesByName("first-contentful-paint")) { observer.disconnect(); resolve(entry.startTime); }
}).observe({ type: "paint", buffered: true }))`

// stateThere is a script that waits until the page knows the whole state.
const stateThere = `new Promise(resolve => {
	const look = () => document.querySelector(".head .good") ? resolve(true) : setTimeout(look, 100);
	look();
})`

// renderers returns the processes of a browser that draw pages.
func renderers(browser int) (pids []int) {
	all, _ := procfs.AllProcs() // none: then nothing is measured
	stats := map[int]procfs.ProcStat{}
	for _, process := range all {
		if stat, err := process.Stat(); err == nil {
			stats[process.PID] = stat
		}
	}
	for _, process := range all {
		words, err := process.CmdLine()
		if err == nil && below(stats, process.PID, browser) && slices.Contains(strings.Fields(strings.Join(words, " ")), "--type=renderer") {
			pids = append(pids, process.PID)
		}
	}
	return pids
}

func cpuOfAll(pids []int) (sum float64) {
	for _, pid := range pids {
		sum += ownCPU(pid)
	}
	return sum
}
