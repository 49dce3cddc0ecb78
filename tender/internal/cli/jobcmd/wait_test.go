package jobcmd

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/pause"
)

// TestCallsWaitNoLongerThanATakeover: however long each try takes, a command gives up in time, and says once what it
// waits for. If nobody has ever answered it does not wait, because nobody will take over.
func TestCallsWaitNoLongerThanATakeover(t *testing.T) {
	const try = 4 * time.Second // as long as the client looks for a leader
	away := func(leaderless bool) error {
		return api.E("job.list", api.Unavailable, "", &client.Unreachable{Tried: "m1:5060 (silent)", Leaderless: leaderless})
	}
	standsBy := api.E("job.list", api.Unavailable, "", errors.New("this instance stands by"))
	for _, test := range []struct {
		what   string
		errs   []error // one for each try; the last one for all further tries
		least  time.Duration
		most   time.Duration
		stderr string
	}{
		{"no cluster", []error{away(false)}, try, try, ""},
		{"no leader", []error{away(true)}, takeoverMax, takeoverMax + try, "tender: waiting for a master, for up to 20s: "},
		{"no manager", []error{standsBy}, takeoverMax, takeoverMax + try, "tender: waiting for a job manager to take over, for up to 20s\n"},
		{"masters that go", []error{away(true), away(false)}, takeoverMax, takeoverMax + try, "tender: waiting for a master, for up to 20s: "},
		{"a takeover", []error{standsBy, standsBy, nil}, 3 * try, 4 * try, "tender: waiting for a job manager"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var stderr bytes.Buffer
			began, tries := time.Now(), 0
			ask := func(ctx context.Context, _ *apiv1.ListJobsRequest, _ ...grpc.CallOption) (*apiv1.ListJobsResponse, error) {
				pause.For(ctx, try)
				tries++
				return new(apiv1.ListJobsResponse), test.errs[min(tries, len(test.errs))-1]
			}
			_, err := call(t.Context(), service{stderr: &stderr}, ask, new(apiv1.ListJobsRequest))
			if want := test.errs[len(test.errs)-1]; !errors.Is(err, want) {
				t.Errorf("%s: it says %v, want %v", test.what, err, want)
			}
			if took := time.Since(began); took < test.least || took > test.most {
				t.Errorf("%s: it took %v, want %v to %v", test.what, took, test.least, test.most)
			}
			if said := stderr.String(); !strings.HasPrefix(said, test.stderr) || strings.Count(said, "\n") > 1 || test.stderr == "" && said != "" {
				t.Errorf("%s: stderr has %q", test.what, said)
			}
		})
	}
}

// TestCtrlCEndsAWaitInSilence: a person who has interrupted a command is told nothing more.
func TestCtrlCEndsAWaitInSilence(t *testing.T) {
	var stderr bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if newWait(&stderr).goesOn(ctx, api.E("job.list", api.Unavailable, "", context.Canceled)) || stderr.Len() > 0 {
		t.Errorf("it goes on, or says %q", &stderr)
	}
}
