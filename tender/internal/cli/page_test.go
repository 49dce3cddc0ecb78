package cli_test

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/tenderhq/tender/internal/testing/routes"
	"github.com/tenderhq/tender/internal/web"
)

// images writes the pictures of the README and the docs anew, and how the views look: make test-ui IMAGES=1.
var images = flag.Bool("images", false, "write docs/images and testdata/page anew")

// checks is a script that returns what is wrong with the page that is shown.
//
//go:embed testdata/page-checks.js
var checks string

// fits is a script that returns what of the page that is shown does not fit into the width.
//
//go:embed testdata/page-fits.js
var fits string

// chromium returns the path of a browser; the test is left out where there is none.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium is installed here; the page is not tried in a browser (apt-get install chromium)")
	return ""
}

// window is a tab of a real browser, and what it has complained of.
type window struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu  sync.Mutex
	bad []string // guarded by mu
}

// openWindow starts a browser whose addresses begin with base.
func openWindow(t *testing.T, base string) *window {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(chromium(t)), chromedp.NoSandbox,
		chromedp.IgnoreCertErrors, chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1280, 900), chromedp.Flag("disable-component-update", true))
	allocated, end := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(end)
	ctx, leave := chromedp.NewContext(allocated)
	t.Cleanup(leave)
	w := &window{t: t, ctx: ctx, base: base}
	w.do(chromedp.Navigate("about:blank"))
	err := chromedp.Listen(ctx, func(event any) {
		switch event := event.(type) {
		case *log.EventEntryAdded: // also what breaks the policy for contents
			if event.Entry.Level == "error" {
				w.complain(fmt.Sprint(event.Entry.Source, ": ", event.Entry.Text, " ", event.Entry.URL))
			}
		case *runtime.EventExceptionThrown:
			w.complain("exception: " + event.ExceptionDetails.Text + " " + event.ExceptionDetails.URL)
		case *runtime.EventConsoleAPICalled:
			if event.Type == "error" || event.Type == "assert" {
				w.complain("the console has an error")
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	call(w, log.Enable, cdp.Empty{})
	call(w, runtime.Enable, cdp.Empty{})
	return w
}

// tab opens another tab of the same browser.
func (w *window) tab() *window {
	w.t.Helper()
	ctx, leave := chromedp.NewContext(w.ctx)
	w.t.Cleanup(leave)
	return &window{t: w.t, ctx: ctx, base: w.base}
}

// call makes a call to the browser.
func call[P, R any](w *window, command cdp.Command[P, R], params P) {
	w.t.Helper()
	if _, err := chromedp.Call(w.ctx, command, params); err != nil {
		w.t.Fatal(err)
	}
}

func (w *window) complain(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad = append(w.bad, text)
}

// complaints returns what the browser has complained of since it was asked last.
func (w *window) complaints() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	bad := w.bad
	w.bad = nil
	return bad
}

// bears fails the test if the browser has complained of anything but these.
func (w *window) bears(these ...string) {
	w.t.Helper()
	for _, one := range w.complaints() {
		if !slices.ContainsFunc(these, func(this string) bool { return strings.Contains(one, this) }) {
			w.t.Errorf("the browser complains: %s", one)
		}
	}
}

// do does something with the page.
func (w *window) do(action chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	if err := chromedp.Do(w.ctx, action); err != nil {
		w.t.Fatalf("%v; complaints: %v", err, w.complaints())
	}
}

// goTo shows an address.
func (w *window) goTo(path string) { w.t.Helper(); w.do(chromedp.Navigate(w.base + path)) }

// evaluated returns what an expression says.
func evaluated[T any](w *window, expression string, values ...any) T {
	w.t.Helper()
	text := fmt.Sprintf(expression, values...)
	value, err := chromedp.Run(w.ctx, chromedp.Evaluate[T](text))
	if err != nil {
		w.t.Fatalf("%.200s: %v", text, err)
	}
	return value
}

// does runs a statement.
func (w *window) does(statement string, values ...any) {
	w.t.Helper()
	evaluated[bool](w, "("+statement+", true)", values...)
}

// contextGone is the code of the browser's answer about a document that is there no more.
const contextGone = -32000

// awaitThat waits until an expression is true. While the page is being left it is not.
func (w *window) awaitThat(expression string, values ...any) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			w.t.Logf("complaints: %v; the page says: %s", w.complaints(), evaluated[string](w, "location + document.body?.innerText"))
		}
	}()
	expression = fmt.Sprintf(expression, values...)
	until(w.t, expression, func() bool {
		is, err := chromedp.Run(w.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if left := new(cdproto.Error); err != nil && (!errors.As(err, &left) || left.Code != contextGone) {
			w.t.Fatalf("%.200s: %v", expression, err)
		}
		return is
	})
}

// await waits until an element is there, and gone until none is.
func (w *window) await(selector string) {
	w.t.Helper()
	w.awaitThat("document.querySelector(%q)", selector)
}
func (w *window) gone(selector string) {
	w.t.Helper()
	w.awaitThat("document.body && !document.querySelector(%q)", selector)
}

// reads waits until an element has a text in it.
func (w *window) reads(selector, text string) {
	w.t.Helper()
	w.awaitThat("[...document.querySelectorAll(%q)].some(e => e.textContent.includes(%q))", selector, text)
}

// isLive waits until the page says that it is patched.
func (w *window) isLive() {
	w.t.Helper()
	w.awaitThat("document.getElementById('live')?.textContent === 'live'")
}

// click clicks an element, and waits until the page that it leads to is there.
func (w *window) click(selector string) {
	w.t.Helper()
	w.await(selector)
	w.does("window.left = true, document.querySelector(%q).click()", selector)
	w.awaitThat("!window.left && document.readyState === 'complete'")
}

// types writes into a field as one does by keyboard.
func (w *window) types(selector, text string) {
	w.t.Helper()
	w.await(selector)
	w.does("document.querySelector(%q).focus()", selector)
	w.do(chromedp.KeyEvent(text))
}

// look sets the colours and the width.
func (w *window) look(scheme string, width int64) {
	w.t.Helper()
	w.do(chromedp.EmulateViewport(width, 900))
	call(w, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// uiOf starts 'tender ui' and returns it with the link that lets a browser in.
func (c *trusted) uiOf(env []string) (ui *proc, link string) {
	c.t.Helper()
	ui = launch(c.t, env, true, []string{"ui", "--no-open"})
	ui.await("Ctrl-C here ends it.")
	return ui, regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?code=\w+`).FindString(ui.stdout.String())
}

// agents starts agents by the token of the cluster, each in a rack, and returns them by their names.
func (c *trusted) agents(names ...string) map[string]*proc {
	c.t.Helper()
	all := make(map[string]*proc)
	token := c.must("token", "create", "agent", "--uses", strconv.Itoa(len(names)))
	for i, name := range names {
		all[name] = start(c.t, c.env, "agent", "--data-dir", c.folder(name), "--http-port", strconv.Itoa(freePort(c.t)), "--hostname", name,
			"--resources", fmt.Sprintf("cpus:%d;mem:%d;disk:1000", 2+2*(i%2), 1024*(1+i%2)), "--attributes", fmt.Sprint("rack=r", 1+i/2), "--join", token, "--master", strings.Join(c.masters, ","))
	}
	until(c.t, "all agents are there", func() bool { return strings.Count(c.must("get", "agents"), "RUNNING") == len(names) })
	return all
}

// TestThePageInABrowser looks at every view of a real cluster with a real browser, sees it change, and acts on it.
func TestThePageInABrowser(t *testing.T) {
	t.Parallel()
	chromium(t)
	c := startTrustedWith(t, "--snapshot-every", "1h")
	c.three()
	agents := c.agents("a1", "a2", "a3", "a4")
	c.must("weight", "eng/web", "2")
	start(t, []string{"TENDER_TOKEN=" + c.must("token", "create", "framework", "--principal", "jobs"), "TENDER_MASTER=" + c.masters[0]}, "jobs", "--port", strconv.Itoa(freePort(t)))
	job := c.folder("site.json")
	if err := os.WriteFile(job, []byte(`{"name":"site","type":"service","task":{"command":"sleep 1000","cpus":0.1,"mem":16},"service":{"count":2}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "a job manager runs", func() bool { return strings.Contains(c.must("get", "frameworks", "-o", "json"), `"jobs": "`) })
	c.must("job", "submit", job)
	_, link := c.uiOf(c.env)
	base, _, _ := strings.Cut(link, "/?")
	w := openWindow(t, base)
	w.do(chromedp.Navigate(link))

	// A task that is started and one that ends show by themselves.
	w.goTo("/tasks")
	w.isLive()
	site := launch(t, c.env, true, []string{"run", "--name", "web", "--role", "eng/web", "--cpus", "1", "--", "sh", "-c", "echo hello from web; exec sleep 1000"})
	w.await(`tr[data-row$="/web.0"]`)
	short := launch(t, c.env, true, []string{"run", "--name", "short", "--role", "science", "--", "sleep", "1000"})
	w.await(`tr[data-row$="/short.0"]`)
	w.reads(`tr[data-row$="/short.0"]`, "RUNNING")
	path := evaluated[string](w, `document.querySelector('tr[data-row$="/short.0"] a').getAttribute("href")`)

	// Every view, in both themes and on a wide and on a narrow screen.
	framework := strings.Split(path, "/")[2]
	names := strings.NewReplacer(framework, "FRAMEWORK")
	views := []string{
		"/", "/?by=state&fill=framework&size=mem", "/agents", "/agents/a1", "/frameworks", "/frameworks/" + framework, "/roles", "/shares", "/shares?fill=framework&size=mem", "/jobs", "/tasks", "/tasks?at=1", "/tasks?all=1", path, path + "/files", "/usage", "/usage?by=role,period&span=all", "/do/run-job", "/do/update-job?job=site",
		"/offers", "/masters", "/why", "/why?q=short", "/access", "/search?q=web", "/help", "/do/kill?framework=" + framework + "&task=short.0", "/do/role?role=eng", "/jobs/site", "/history", "/history?all=1", "/nothing",
	}
	for _, route := range routes.Missing(web.Routes(), requestsOf(views)) {
		if strings.HasPrefix(route, "GET ") && !strings.HasPrefix(route, "GET /do/") && !slices.Contains([]string{"/events", "/usage.csv", "/file", "/stdout", "/stderr"}, route[strings.LastIndex(route, "/"):]) {
			t.Errorf("nobody looks at %s", route)
		}
	}
	for _, view := range views {
		w.goTo(view)
		if view == "/jobs/site" {
			w.reads("main", "all run version 1") // the last that happens by itself, so that the views of events stay as they are
		}
		for _, one := range w.lookAt(names.Replace(view)) {
			t.Error(one)
		}
	}
	if !*images {
		w.finds("/agents", "document.styleSheets[0].disabled = true", "it looks")
		w.finds("/agents", "document.querySelector('main').style.visibility = 'hidden'", "nothing is shown")
		w.finds("/agents", "document.querySelector('main').style.width = '1400px'", "the screen is")
	}
	w.bears("/nothing") // whose status is 404
	w.goTo("/masters")
	w.awaitThat("document.querySelectorAll('td[data-label=Saved] time').length === 3") // followers have told the leader
	w.look("light", 1280)

	// The output of a task follows; a link in the keyboard's way leads on.
	w.goTo("/tasks")
	w.click(`tr[data-row$="/web.0"] a`)
	w.reads(`[data-follow$="/stdout"]`, "hello from web")
	w.do(chromedp.KeyEvent("ga"))
	w.awaitThat("location.pathname === '/agents'")
	w.isLive()
	w.do(chromedp.KeyEvent("/"))
	w.awaitThat("document.activeElement?.id === 'search'")
	w.do(chromedp.KeyEvent("web.0\r"))
	w.awaitThat("location.pathname === '/search'")
	w.await(`tr[data-row$="/web.0"]`)
	if *images {
		w.goTo("/")
		w.isLive()
		w.picture("page-cluster.png")
		w.look("dark", 1280)
		w.goTo("/tasks")
		w.picture("page-tasks-dark.png")
		w.look("light", 1280)
	}

	// A file of the task, the colours, and a job that is scaled by its plan.
	w.goTo(path + "/files")
	w.reads("main td", "stdout")
	w.does("document.getElementById('theme').click(), document.getElementById('theme').click()")
	w.awaitThat("getComputedStyle(document.documentElement).colorScheme === 'dark'")
	w.does("document.getElementById('theme').click()")
	w.goTo("/jobs/site")
	w.click(`a[href^="/do/scale-job"]`)
	w.types(`input[name="count"]`, "3")
	w.click(`button[name="plan"]`)
	w.reads("main", "The plan is to update site.")
	w.click(`form.ask button:not([name])`)
	w.reads("main", "It changes to version 2.")
	w.goTo("/jobs/site")
	w.awaitThat("document.querySelectorAll('.indexes svg a').length === 3")

	// A task is killed, and an agent is drained.
	w.goTo("/tasks")
	const rows = `[...document.querySelectorAll("tr[data-row]")].map(row => row.dataset.row + " " + row.innerText.split("\t")[4]).join("; ")`
	w.awaitThat(`document.querySelectorAll("tr[data-row*='/site.'] .good").length === 3`) // nothing is on its way
	before := evaluated[int64](w, "Math.ceil(Date.now() / 1000)")
	w.awaitThat("Date.now() > %d", 1000*before) // what happens now is later
	then := evaluated[string](w, rows)
	w.goTo(path)
	w.click(`a[href^="/do/kill"]`)
	w.reads("main", "Its framework is told")
	w.click("button.danger")
	w.reads("main", "Its agent has the order to kill it.")
	w.goTo("/tasks")
	w.gone(`tr[data-row$="/short.0"]`)
	if short.wait() == 0 {
		t.Error("a task that was killed ends well")
	}
	all := []string{"a1", "a2", "a3", "a4"}
	idle := all[slices.IndexFunc(all, func(name string) bool { return !strings.Contains(c.must("get", "tasks", "-o", "wide"), name) })]
	w.goTo("/agents/" + idle)
	w.click(`a[href^="/do/drain"]`)
	w.await("button.danger")
	w.click("button.danger")
	w.reads("main h2", "Done")
	w.goTo("/?by=rack")
	w.await(`svg rect.drain`)
	if audit := c.must("audit"); !strings.Contains(audit, "KillTask") || !strings.Contains(audit, "drain") {
		t.Errorf("the audit is %s", audit)
	}

	// A tab sleeps. In another one, whose browser runs no scripts, all views are whole, and the agent is reactivated. The
	// first one shows it when it is awake.
	w.goTo("/agents")
	w.isLive()
	const seen = "Object.defineProperty(document, 'hidden', { value: %t, configurable: true }), document.dispatchEvent(new Event('visibilitychange'))"
	drains := fmt.Sprintf(`[...document.querySelectorAll("tr[data-row]")].some(row => row.innerText.includes(%q) && row.innerText.includes("drain"))`, idle)
	w.awaitThat("%s", drains)
	w.does(seen, true)
	plain := w.tab()
	call(plain, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	for _, view := range views {
		plain.goTo(view)
		if wrong := evaluated[string](plain, "%s", plainly); wrong != "" {
			t.Errorf("%s without scripts: %s", view, wrong)
		}
	}
	plain.goTo("/agents/" + idle)
	plain.click(`a[href^="/do/reactivate"]`)
	plain.click("form.ask button:not([name])")
	plain.reads("main h2", "Done")
	if !evaluated[bool](w, "%s", drains) {
		t.Error("a tab that nobody sees is kept up to date")
	}
	w.does(seen, false)
	w.awaitThat("!%s", drains)

	// The list of a moment that has passed is what it was then: by its address, and dragged to.
	w.goTo(fmt.Sprint("/tasks?at=", before))
	w.reads(".head", "as it was at")
	if was := evaluated[string](w, rows); was != then || !strings.Contains(was, "short.0") {
		t.Errorf("the list of tasks was %s, and is said to have been %s", then, was)
	}
	w.goTo("/tasks")
	w.gone(`tr[data-row$="/short.0"]`)
	w.await("#at")
	w.does(`(range => { range.value = %d; range.dispatchEvent(new Event("input", { bubbles: true })); })(document.getElementById("at"))`, before)
	w.await(`tr[data-row$="/short.0"]`)
	w.click(`tr[data-row$="/short.0"] a`)
	w.reads(".head", "as it was at") // a link leads to the same moment
	w.click("footer a.button")
	w.reads("main", "KILLED")

	// A page that begins later pieces the moment together from the history.
	ui, link := c.uiOf(c.env)
	w.do(chromedp.Navigate(link))
	w.base = evaluated[string](w, "location.origin")
	w.goTo("/tasks")
	w.reads(`tr[data-row$="/web.0"]`, "RUNNING")
	w.goTo(fmt.Sprint("/tasks?at=", before))
	w.reads("footer", "pieced together")
	if was := evaluated[string](w, rows); was != then {
		t.Errorf("the list of tasks was %s, and is pieced together as %s", then, was)
	}

	// Nothing is heard of the server, as of one whose computer sleeps: the page says from when it is, and goes on by itself.
	c.must("run", "--detach", "--name", "quiet", "--", "sleep", "1000")
	w.goTo("/tasks")
	w.reads(`tr[data-row$="/quiet.0"]`, "RUNNING")
	w.isLive()
	ui.signal(syscall.SIGSTOP)
	w.does("Date.now = (now => () => now() + 60_000)(Date.now)")
	w.awaitThat(`document.getElementById("live").textContent.startsWith("not live: as it was at")`)
	quiet := evaluated[string](w, `document.querySelector('tr[data-row$="/quiet.0"] a').getAttribute("href")`)
	where := agents[evaluated[string](w, `document.querySelector('tr[data-row$="/quiet.0"] [data-label=On]').innerText`)]
	site.signal(syscall.SIGINT)
	ui.signal(syscall.SIGCONT)
	w.gone(`tr[data-row$="/web.0"]`)
	w.awaitThat(`document.getElementById("live").textContent === "live"`)

	// The leader is killed with the page open: it goes on by itself. Until the agent of a task has reported to the next one,
	// nobody says that the task is not there.
	w.goTo("/")
	w.reads(".head", "leads")
	where.signal(syscall.SIGSTOP)
	leads := evaluated[string](w, `document.querySelector(".head .good").textContent.split(" ")[0]`)
	i := slices.Index([]string{"m1", "m2", "m3"}, leads)
	c.procs[i].signal(syscall.SIGKILL)
	c.procs[i].wait()
	w.awaitThat(`(at => at && at.textContent.includes("leads") && !at.textContent.startsWith(%q))(document.querySelector(".head .good"))`, leads+" ")
	w.reads(".head .warn", "1 agent yet to report")
	if _, told, code := tender(t, c.env, "describe", "task", "quiet"); code != 1 || !strings.Contains(told, "not yet known: 1 agent has not reported to this leader") {
		t.Errorf("of a task whose agent has not reported: exit code %d, %s", code, told)
	}
	w.goTo(quiet)
	w.reads("main", "not yet known")
	where.signal(syscall.SIGCONT)
	w.reads("main dd", "RUNNING")
	w.bears("net::ERR_", "status of 503") // of connections that broke, and of what was not yet known
}

// plainly says what a view lacks where no script has run.
const plainly = `document.getElementById("theme").hidden !== true || document.getElementById("live").textContent ? "a script has run"
	: !document.title || ![...document.querySelectorAll("main section")].every(one => one.innerText.trim()) ? "a block of it is empty: " + document.querySelector("main").innerText
	: document.querySelector("main [data-block=figures]") && !document.querySelector("main svg a") ? "it has no picture" : ""`

// requestsOf returns the requests that show views.
func requestsOf(views []string) (requests []string) {
	for _, view := range views {
		requests = append(requests, "GET "+view)
	}
	return requests
}

// TestPeopleLogInToThePage: at a master, by a token; until they log out, or their cookie or they count no more.
func TestPeopleLogInToThePage(t *testing.T) {
	t.Parallel()
	chromium(t)
	c := startTrusted(t)
	c.agents("a1")
	c.must("grant", "eve", "view")
	w := openWindow(t, "https://"+c.http[0])
	logIn := func(name string) {
		t.Helper()
		w.goTo("/login")
		w.types("#token", c.must("token", "create", "operator", "--principal", name)+"\r")
		w.reads(".head", "you are "+name)
	}
	w.goTo("/tasks")
	w.await("#token")
	logIn("eve")
	w.goTo("/do/drain?agent=a1")
	w.reads("main", "You may not do it")
	w.click("button.danger")
	w.reads("main", "It was not done")
	if agents := c.must("get", "agents"); strings.Contains(agents, "drain") {
		t.Errorf("who may only view has drained: %s", agents)
	}
	w.goTo("/")
	w.click(`form[action="/logout"] button`)
	w.await("#token")
	w.goTo("/agents")
	w.await("#token")
	logIn("eve")
	call(w, network.ClearBrowserCookies, cdp.Empty{}) // as when it has expired
	w.goTo("/agents")
	w.await("#token")
	logIn("eve")
	w.goTo("/agents")
	w.isLive()
	c.must("revoke", "eve", "--force", "--why", "she has left")
	w.reads("body.login", "she has left") // though nobody has touched the page
	if text := evaluated[string](w, "document.body.innerText"); strings.Contains(text, "agent-") {
		t.Errorf("who was revoked is shown %s", text)
	}
}

// picture writes what is shown into docs/images.
func (w *window) picture(name string) {
	w.t.Helper()
	png, err := chromedp.Run(w.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		w.t.Fatal(err)
	}
	folder := filepath.Join("..", "..", "..", "docs", "images")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name), png, 0o644); err != nil {
		w.t.Fatal(err)
	}
}
