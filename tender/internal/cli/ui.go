package cli

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/web"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
)

func uiCommand(who *caller.Caller) *cobra.Command {
	var noOpen bool
	var port int
	command := &cobra.Command{
		Use: "ui", Short: "Show the cluster in a browser, with your own rights", Args: caller.Exactly(),
		Long: "Show the cluster in a browser: a page that stays as the cluster is, and on which one can do what the commands do. It is\n" +
			"served by this process, on this machine alone and until Ctrl-C, and calls the cluster as you do: there is nothing to\n" +
			"log in to. It follows the leader when another master leads.\n\n" +
			"The link that is opened or printed lets one browser in, once; for another browser a new one is printed.",
		Example: "  tender ui\n  tender ui --no-open --port 8080",
	}
	command.Flags().BoolVar(&noOpen, "no-open", false, "only print the link")
	command.Flags().IntVar(&port, "port", 0, "port on 127.0.0.1 (0 = any that is free)")
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
		me, err := c.Operator().WhoAmI(ctx, &apiv1.WhoAmIRequest{})
		if err != nil {
			return err
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return err
		}
		page := web.New(web.Config{Cluster: c, Agents: c.DialAgent})
		defer page.End()
		viewer := web.Viewer{Name: me.GetName()}
		page.Begin(web.WithViewer(ctx, viewer))
		door := newUIDoor(listener.Addr().String(), viewer, func(link string) {
			fmt.Fprintf(who.Stdout, "Open it in another browser: %s\n", link)
		})
		link := door.link()
		fmt.Fprintf(who.Stdout, "The page is at %s\nCtrl-C here ends it.\n", link)
		if !noOpen {
			if err := openBrowser(ctx, link); err != nil {
				fmt.Fprintf(who.Stderr, "No browser was opened (%v): open the link yourself.\n", err)
			}
		}
		return serveUI(ctx, listener, door.handler(page.Handler()))
	})
	return command
}

// serveUI serves until the context ends.
func serveUI(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// openBrowser opens a link as this machine's desktop does.
func openBrowser(ctx context.Context, link string) error {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	return exec.CommandContext(ctx, program, link).Start()
}

// uiDoor lets in the browsers of the person who has started 'tender ui'. Others on this machine reach the port too, so
// each browser has to show a code once, and a cookie after that.
type uiDoor struct {
	address string
	viewer  web.Viewer
	tell    func(link string) // of the next link
	secret  string            // the value of the cookie

	mu   sync.Mutex
	code string // guarded by mu; lets one browser in, and then another is made
}

func newUIDoor(address string, viewer web.Viewer, tell func(link string)) *uiDoor {
	return &uiDoor{address: address, viewer: viewer, tell: tell, secret: rand.Text(), code: rand.Text()}
}

// link returns the address by which the next browser gets in.
func (d *uiDoor) link() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return "http://" + d.address + "/?code=" + d.code
}

// uses reports whether the code is the present one, and if so makes another.
func (d *uiDoor) uses(code string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if subtle.ConstantTimeCompare([]byte(code), []byte(d.code)) == 0 {
		return false
	}
	d.code = rand.Text()
	return true
}

// cookieName is another one for each port, because browsers send cookies to all ports of a host.
func (d *uiDoor) cookieName() string {
	_, port, _ := net.SplitHostPort(d.address)
	return "tender-ui-" + port
}

// handler serves the page to whoever has shown a code.
func (d *uiDoor) handler(page http.Handler) http.Handler {
	return trust.KnownHosts(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := r.URL.Query().Get("code"); code != "" && r.Method == http.MethodGet && d.uses(code) {
			http.SetCookie(w, &http.Cookie{Name: d.cookieName(), Value: d.secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			http.Redirect(w, r, "/", http.StatusSeeOther)
			d.tell(d.link())
			return
		}
		cookie, err := r.Cookie(d.cookieName())
		if err != nil || subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(d.secret)) == 0 {
			http.Error(w, "open the link that 'tender ui' has printed last; each lets one browser in", http.StatusForbidden)
			return
		}
		page.ServeHTTP(w, r.WithContext(web.WithViewer(r.Context(), d.viewer)))
	}))
}
