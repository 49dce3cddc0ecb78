package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// screens are what a screen of 3 rows and 10 columns shows after what was written.
var screens = []struct{ what, written, shown string }{
	{"a text that is too long goes on below, and what was first moves out", "0123456789ab\r\nc\r\nd", "ab|c|d"},
	{"the cursor goes where it is sent", "\x1b[2;3Hx\x1b[A\x1b[5Gy\x1b[9;99Hz\r\b_", "    y|  x|_        z"},
	{"parts are erased", "aaaa\r\nbbbb\r\ncccc\x1b[1;3H\x1b[K\x1b[2;2H\x1b[1K\x1b[3;1H\x1b[X", "aa|  bb| ccc"},
	{"all is erased", "aaaa\r\nbbbb\x1b[2J", "||"},
	{"characters come in and go", "abcdef\r\x1b[2@\x1b[4G\x1b[P", "  acdef||"},
	{"lines come in and go", "a\r\nb\r\nc\x1b[2;1H\x1b[Lx\x1b[1;1H\x1b[M", "x|b|"},
	{"a part of the screen moves", "a\r\nb\r\nc\x1b[2;3r\x1b[3;1H\nd\x1b[2;1H\x1bMe", "a|e|c"},
	{"the other screen leaves the first one as it was", "first\x1b[?1049hsecond\x1b[?1049l!", "first!||"},
	{"tabs, titles and colours take no room", "\x1b]0;a title\x07\x1b[1;38;5;208;44mab\x1b[m\tc\x1b(0q\x1b(B", "ab      c─||"},
	{"what is not known is left out", "\x1b[>4;2m\x1b[?12$p\x1bPx\x1b\\\x1b[1 qok", "ok||"},
}

// TestACommandInATaskOnThePage: a shell beside a task, in a terminal of the page, for whoever may, by a master and by
// 'tender ui'.
func TestACommandInATaskOnThePage(t *testing.T) {
	c := startTrusted(t)
	c.agents("a1")
	c.must("grant", "ann", "operate")
	c.must("grant", "eve", "view")
	launch(t, c.env, true, []string{"run", "--name", "web", "--", "sh", "-c", "echo hello >found; exec sleep 1000"})
	w := openWindow(t, "https://"+c.http[0])
	logIn := func(name string) {
		t.Helper()
		w.goTo("/login")
		w.types("#token", c.must("token", "create", "operator", "--principal", name)+"\r")
		w.reads(".head", "you are "+name)
	}
	logIn("eve")
	w.goTo("/tasks")
	w.reads(`tr[data-row$="/web.0"]`, "RUNNING")
	w.click(`tr[data-row$="/web.0"] a`)
	path := evaluated[string](w, "location.pathname")
	w.click(`a[href^="/do/exec"]`)
	w.reads("main", "You may not do it")
	w.click("button.danger")
	w.reads("main", "It was not done")
	w.bears("/do/exec") // whose status is 403

	// A shell, with what it says in colours, at its size; top; and the end.
	logIn("ann")
	ask := func(command string) {
		t.Helper()
		w.goTo("/do/exec?command=" + command + "&framework=" + strings.Split(path, "/")[2] + "&task=web.0")
		w.reads("main", "It runs beside task web.0")
		w.click("button.danger")
		w.awaitThat(`document.activeElement?.nodeName === "TEXTAREA"`)
	}
	ask("")
	w.reads("main .command", "-- sh")
	w.do(chromedp.KeyEvent("cat found; stty size; printf '\\033[1;31mred\\033[0m %s\\n' $((40+2))\r"))
	w.reads(".screen", "hello")
	w.reads(".screen", "red 42")
	w.awaitThat(`[...document.querySelectorAll(".screen span.bold")].some(e => e.textContent === "red" && getComputedStyle(e).color === "rgb(242, 119, 122)")`)
	w.awaitThat(`[...document.querySelectorAll(".screen div")].some(e => /^24 \d+\s*$/.test(e.textContent))`)
	for _, scheme := range []string{"light", "dark"} {
		w.look(scheme, 360)
		if wrong := evaluated[[]string](w, "%s", checks); len(wrong) > 0 {
			t.Errorf("the terminal, %s: %v", scheme, wrong)
		}
	}
	w.look("light", 1280)
	w.types(".terminal textarea", "top\r")
	w.reads(".screen", "load average")
	w.do(chromedp.KeyEvent("q"))
	w.awaitThat(`[...document.querySelectorAll(".screen div")].some(e => /^[#$] *$/.test(e.textContent))`) // top throws away what is typed meanwhile
	w.do(chromedp.KeyEvent("exit 7\r"))
	w.reads(".screen", "[it has ended with exit code 7]")
	w.awaitThat(`document.querySelector("textarea").disabled`)
	for _, one := range screens {
		written, err := json.Marshal(one.written)
		if err != nil {
			t.Fatal(err)
		}
		w.does(`window.seen = null, import("/terminal.js").then(terminal => { const screen = new terminal.Screen(3, 10); screen.write(%s); window.seen = screen.text().replaceAll("\n", "|"); })`, written)
		w.awaitThat("window.seen !== null")
		if seen := evaluated[string](w, "window.seen"); seen != one.shown {
			t.Errorf("%s: %q shows %q, not %q", one.what, one.written, seen, one.shown)
		}
	}
	w.bears("nothing")

	// It is written down whose it was, and ends with their rights.
	ask("sh")
	w.do(chromedp.KeyEvent("echo still here\r"))
	w.reads(".screen", "still here")
	c.must("revoke", "ann", "--force", "--why", "she has left")
	w.reads(".screen", "the leader has ended the tickets of this principal")
	if audit := c.must("audit"); !strings.Contains(audit, "GetExecTicket") || !strings.Contains(audit, "person ann by a browser") {
		t.Errorf("the masters' audit is %s", audit)
	}
	noted, err := os.ReadFile(filepath.Join(c.folder("a1"), "audit.log"))
	if err != nil || !strings.Contains(string(noted), `"who":"person ann by a browser"`) || !strings.Contains(string(noted), `"exit_code":7`) {
		t.Errorf("the agent's audit is %s, %v", noted, err)
	}

	// In 'tender ui' it is the person's own.
	_, link := c.uiOf(c.env)
	w.base, _, _ = strings.Cut(link, "/?")
	w.do(chromedp.Navigate(link))
	ask("cat+found")
	w.reads(".screen", "hello")
	w.reads(".screen", "[it has ended with exit code 0]")
}
