package doctor

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/datafolder"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/version"
	"github.com/tenderhq/tender/internal/words"
)

// Cluster looks at the masters and agents of a cluster, as far as the caller may see them. The error says that no
// master has told which masters there are.
func Cluster(ctx context.Context, c *client.Client, now func() time.Time) ([]Finding, error) {
	masters, err := c.Operator().ListMasters(ctx, &apiv1.ListRequest{})
	if err != nil {
		return nil, err
	}
	found := []Finding{judgeQuorum(masters.GetItems()), judgeVersions(masters.GetItems())}
	each := make([][]Finding, len(masters.GetItems()))
	var asked sync.WaitGroup
	for i, member := range masters.GetItems() {
		asked.Go(func() { each[i] = lookAtMaster(ctx, c, member, now) })
	}
	asked.Wait()
	found = append(found, slices.Concat(each...)...)
	found = append(found, lookAtAgents(ctx, c)...)
	return append(found, lookAtCertificates(ctx, c, now())...), nil
}

// judgeQuorum says whether the masters are enough to survive the loss of one.
func judgeQuorum(members []*apiv1.MasterView) Finding {
	f := Finding{State: Good, Of: "cluster", What: "masters", Right: "3 or 5 voting masters, and all answer"}
	voters, silent := 0, []string{}
	for _, m := range members {
		if m.GetState() != "non-voter" {
			voters++
		}
		if m.GetState() == "unreachable" {
			silent = append(silent, m.GetId())
		}
	}
	f.Is = words.Count(voters, "voting master")
	do := "tender token create master, then tender master --join (docs/operate.md, \"Starting a quorum\")"
	switch {
	case len(silent) > 0:
		f.State, f.Is = Bad, f.Is+"; silent: "+strings.Join(silent, ", ")
		do = "start " + strings.Join(silent, ", ") + " again, or replace it: tender raft remove, then add"
	case voters%2 == 0 || voters == 1:
		f.State = Warn
	}
	return f.advise(do)
}

// judgeVersions says whether this command and all masters may work together.
func judgeVersions(members []*apiv1.MasterView) Finding {
	f := Finding{State: Good, Of: "cluster", What: "versions of masters", Right: "one version; for the time of an upgrade two neighbours"}
	versions := []string{version.String()}
	for _, m := range members {
		if v := m.GetVersion(); v != "" && !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	f.Is = strings.Join(versions, ", ")
	if len(versions) > 1 {
		f.State, f.Is = Warn, "this command "+f.Is
	}
	for i, a := range versions {
		for _, b := range versions[i+1:] {
			if protocol.Neighbours(a, b) != nil {
				f.State = Bad
			}
		}
	}
	return f.advise("finish the upgrade (docs/operate.md, \"Upgrading\"); tender get masters -o wide names who has which")
}

// answerMax is how long a master may take to answer.
const answerMax = 10 * time.Second

// lookAtMaster asks a master for its metrics, and sees by the way what its clock says.
func lookAtMaster(ctx context.Context, c *client.Client, member *apiv1.MasterView, now func() time.Time) []Finding {
	of := "master " + member.GetId()
	var found []Finding
	if why := member.GetWhy(); why != "" {
		found = append(found, Finding{State: Bad, Of: of, What: "state", Is: why, Right: "nothing is wrong with it", Do: "see its log, and docs/operate.md, \"Reported problems\""})
	}
	families, ahead, doubt, err := readMetrics(ctx, c, member.GetHttpAddress(), now)
	if doubt > 0 {
		found = append(found, judgeClock(of, ahead, doubt))
	}
	if err != nil {
		return append(found, Finding{State: Unknown, Of: of, What: "metrics", Is: err.Error(), Right: "they are served, and you may view them", Do: "look at its HTTP port, and at tender whoami"})
	}
	return append(found, judgeMetrics(of, families)...)
}

// readMetrics also returns how far the other clock is ahead of ours, and how far off that may be; no doubt means that
// nothing was heard.
func readMetrics(ctx context.Context, c *client.Client, address string, now func() time.Time) (families map[string]*dto.MetricFamily, ahead, doubt time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerMax)
	defer cancel()
	asked := now()
	answer, err := c.GetFromMaster(ctx, address, "/metrics")
	took := now().Sub(asked)
	if said, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		// The header has whole seconds: the moment was half a second later on average.
		ahead, doubt = said.Add(time.Second/2).Sub(asked.Add(took/2)), time.Second/2+took/2
	}
	if err != nil {
		return nil, ahead, doubt, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err = parser.TextToMetricFamilies(bytes.NewReader(answer.Body))
	return families, ahead, doubt, err
}

// judgeMetrics judges what a master measures of itself.
func judgeMetrics(of string, families map[string]*dto.MetricFamily) (found []Finding) {
	gauge := func(name string) (value float64, there bool) {
		for _, m := range families[name].GetMetric() {
			return m.GetGauge().GetValue(), true
		}
		return 0, false
	}
	if free, there := gauge("tender_data_free_bytes"); there {
		room := datafolder.Room{Free: uint64(free)}
		if inodes, there := gauge("tender_data_free_inodes"); there {
			room.InodesFree, room.Inodes = uint64(inodes), uint64(max(inodes, 1))
		}
		found = append(found, judgeRoom(of, room)...)
		if room.Free < 2<<30 && found[0].State == Good { // it does not say how large its disk is
			found[0] = Finding{State: Warn, Of: of, What: found[0].What, Is: found[0].Is, Right: found[0].Right}.advise("see how large its disk is: a full one stops a master")
		}
	}
	if most, there := gauge("process_max_fds"); there {
		found = append(found, judgeLimit(of, "open files", uint64(most), filesLeast, "LimitNOFILE=65536 in its unit"))
	}
	if p99, count := quantile(families["tender_raft_commit_seconds"], 0.99); count >= syncs {
		f := Finding{State: Good, Of: of, What: "commit", Right: syncBad.String() + " or less",
			Is: fmt.Sprintf("%d of 100 entries are stored within %v", 99, round(p99))}
		if p99 > syncBad {
			f.State = Warn
		}
		found = append(found, f.advise("its disk, or those of a majority, are slow, or the network between them"))
	}
	return found
}

// quantile returns the upper bound of the bucket of a histogram in which the quantile is, and how many it has counted.
func quantile(family *dto.MetricFamily, q float64) (time.Duration, uint64) {
	for _, m := range family.GetMetric() {
		h := m.GetHistogram()
		for _, bucket := range h.GetBucket() {
			if float64(bucket.GetCumulativeCount()) >= q*float64(h.GetSampleCount()) {
				return time.Duration(bucket.GetUpperBound() * float64(time.Second)), h.GetSampleCount()
			}
		}
	}
	return 0, 0
}

// namedMax is how many agents or certificates a line names.
const namedMax = 5

// lookAtAgents lists the agents that have a problem, and those of a wrong version.
func lookAtAgents(ctx context.Context, c *client.Client) []Finding {
	agents, _, err := client.All(ctx, c.Operator().ListAgents, 0, &apiv1.ListRequest{})
	if err != nil {
		return []Finding{unseen("agents", err)}
	}
	state := Finding{State: Good, Of: "cluster", What: "agents", Is: words.Count(len(agents), "agent") + ", all well", Right: "all answer, and nothing is wrong with them"}
	versions := Finding{State: Good, Of: "cluster", What: "versions of agents", Is: "neighbours of this command's", Right: "neighbours of the masters'"}
	var ill, strange []string
	for _, a := range agents {
		if slices.Contains(a.GetMarks(), "gone") {
			continue // somebody has decided about it
		}
		if a.GetState() == "TOMBSTONE" || a.GetState() == "DISCONNECTED" || a.GetWhy() != "" {
			ill = append(ill, strings.TrimSuffix(a.GetId()+" ("+a.GetState()+": "+a.GetWhy(), ": ")+")")
		}
		if protocol.Neighbours(version.String(), a.GetVersion()) != nil {
			strange = append(strange, a.GetId()+" ("+a.GetVersion()+")")
		}
	}
	if len(ill) > 0 {
		state.State, state.Is = Warn, fmt.Sprintf("%d of %d need a look: %s", len(ill), len(agents), words.Some(ill, namedMax))
	}
	if len(strange) > 0 {
		versions.State, versions.Is = Bad, words.Some(strange, namedMax)
	}
	return []Finding{
		state.advise("tender get agents says why; see docs/operate.md, \"Reported problems\""),
		versions.advise("upgrade them, one minor version at a time (docs/operate.md, \"Upgrading\")"),
	}
}

// lookAtCertificates judges the certificates of masters and agents by the lives that they have by default.
func lookAtCertificates(ctx context.Context, c *client.Client, now time.Time) []Finding {
	authority, err := c.Operator().GetAuthority(ctx, &apiv1.GetAuthorityRequest{})
	if api.Is(err, api.Unsupported) {
		return []Finding{{
			State: Warn, Of: "cluster", What: "certificates", Is: "there are none: everybody who reaches a port may do everything",
			Right: "a cluster with a key", Do: "docs/security.md; on a network of its own it may stay so",
		}}
	}
	if err != nil {
		return []Finding{unseen("certificates", err)}
	}
	found := Finding{State: Good, Of: "cluster", What: "certificates", Right: "renewed at half of their life"}
	var late []string
	known := 0
	for _, item := range authority.GetItems() {
		identity, err := trust.Parse(item.GetIdentity())
		if err != nil || item.GetEnds() == nil || identity.Kind != trust.Master && identity.Kind != trust.Agent {
			continue
		}
		known++
		one := judgeEnd("cluster", found.What, item.GetEnds().AsTime(), now, trust.Lives{}.Of(identity.Kind), "")
		if one.State != Good {
			late = append(late, identity.Kind.String()+" "+identity.Name+" ("+one.Is+")")
			if found.State != Bad {
				found.State = one.State
			}
		}
	}
	found.Is = words.Count(known, "certificate") + " of masters and agents, renewed in time"
	if len(late) > 0 {
		found.Is = words.Some(late, namedMax)
	}
	return []Finding{found.advise("their logs say why they were not renewed; where --certificate-life is shorter than by default, all may be well")}
}

func unseen(what string, err error) Finding {
	return Finding{State: Unknown, Of: "cluster", What: what, Is: err.Error(), Do: "tender whoami says what you may see"}
}
