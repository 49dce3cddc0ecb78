package master_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/web"
)

// TestEachRouteOfThePageWithEachWrongIdentity: whoever has no cookie, one that no master has signed, one that has expired,
// or one of a principal that was revoked or has no right, is shown and does nothing.
func TestEachRouteOfThePageWithEachWrongIdentity(t *testing.T) {
	inLobby(t, 1, trust.Lives{Others: 10 * time.Minute}, func(t *testing.T, l *lobby) {
		expired := l.cookieOf("host1", l.token("ann", 0, 0))
		<-time.After(11 * time.Minute)
		l.restrict("poor", &apiv1.PrincipalGrant{Verb: "log-level"})
		revoked, poor := l.cookieOf("host1", l.token("bob", 0, 0)), l.cookieOf("host1", l.token("poor", 0, 0))
		if _, err := l.operator.Revoke(t.Context(), &apiv1.RevokeRequest{Principal: "bob", Why: "it leaked"}); err != nil {
			t.Fatal(err)
		}
		forged := *revoked
		forged.Value = "made.up"
		form := url.Values{"framework": {"f"}, "task": {"t"}, "agent": {"a"}, "role": {"r"}, "weight": {"2"}, "job": {"j"}, "count": {"1"}, "text": {`{"name":"j"}`}}
		var looks, actions, sends []string
		for _, route := range web.Routes() {
			method, pattern, _ := strings.Cut(route, " ")
			address := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(strings.ReplaceAll(pattern, "{$}", ""), "x")
			action, acts := strings.CutPrefix(address, "/do/")
			switch {
			case method == http.MethodGet && acts:
				looks = append(looks, address+"?"+form.Encode())
			case method == http.MethodGet:
				looks = append(looks, address, address+"?at=1", address+"?q=f&all=1&path=x")
			case acts:
				actions = append(actions, action)
			default:
				sends = append(sends, address)
			}
		}
		if len(looks) < 60 || len(actions) < 14 || len(sends) < 2 {
			t.Fatalf("the page names few routes: %v, %v, %v", looks, actions, sends)
		}
		for name, cookie := range map[string]*http.Cookie{"nobody": nil, "a forged cookie": &forged, "an expired cookie": expired, "a revoked principal": revoked} {
			for _, path := range looks {
				answer := l.browse(page{path: path, cookie: cookie})
				if answer.code != http.StatusSeeOther && answer.code != http.StatusForbidden || strings.Contains(answer.text, "data-block") {
					t.Errorf("%s gets %d at %s: %s", name, answer.code, path, answer.text)
				}
			}
			for _, path := range sends {
				if answer := l.browse(page{method: http.MethodPost, path: path, cookie: cookie}); answer.code != http.StatusForbidden {
					t.Errorf("%s is answered with %d at %s: %s", name, answer.code, path, answer.text)
				}
			}
			for _, action := range actions {
				if answer := l.browse(page{method: http.MethodPost, path: "/do/" + action, cookie: cookie, form: form}); answer.code != http.StatusForbidden {
					t.Errorf("%s is answered with %d to %s: %s", name, answer.code, action, answer.text)
				}
			}
		}
		for _, action := range actions { // an agent, a task or a job that there is not may be said to be so
			answer := l.browse(page{method: http.MethodPost, path: "/do/" + action, cookie: poor, form: form})
			if answer.code < 400 || !strings.Contains(answer.text, "It was not done") {
				t.Errorf("who has no right is answered with %d to %s: %s", answer.code, action, answer.text)
			}
		}
		for _, path := range []string{"/agents", "/tasks", "/frameworks", "/offers", "/search?q=f", "/usage", "/usage.csv", "/history", "/tasks?all=1", "/tasks?at=1"} {
			if answer := l.browse(page{path: path, cookie: poor}); answer.code != http.StatusForbidden {
				t.Errorf("who has no right gets %d at %s: %s", answer.code, path, answer.text)
			}
		}
	})
}
