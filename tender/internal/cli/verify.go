package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/verify"
	"github.com/tenderhq/tender/internal/verify/views"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// verifyWait is for how long a difference must last before it counts, unless --wait says otherwise: longer than a
// session timeout and the resending of a status.
const verifyWait = 15 * time.Second

func verifyCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{
		Use:   "verify",
		Short: "Check that what masters and agents say fits together",
		Long: "Ask all masters and agents what they have, and compare: the leader's books with what is on its agents, tasks with\n" +
			"their agents and frameworks, offers, reservations, marks and demand with each other, volumes by their generations and\n" +
			"folders, and the folders and registries of all masters. Nothing is changed.\n\n" +
			"The cluster goes on meanwhile. A difference counts only if every look finds the same one, for as long as --wait says;\n" +
			"what is in flight is never shown. When all fits together the first look is enough.\n\n" +
			"The exit code is 0 if all is well, and 1 with a list if something is broken. It is 3 if nothing is, as far as could\n" +
			"be seen, and something could not be looked at, such as an agent that is away. It takes the right to view everything.",
		Example: "  tender verify\n" +
			"  tender verify --wait 1m -o json | jq '.broken[]'",
		Args: caller.Exactly(),
	}
	wait := command.Flags().Duration("wait", verifyWait, "for how long a difference must last before it counts")
	format := show.FormatFlag(command.Flags(), show.AsText, show.AsJSON)
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
		if *wait < verify.Apart {
			return caller.Usagef("--wait is %v; a second is the least, for two looks", *wait)
		}
		watch, err := watchFor(ctx, looker{client: c, now: who.Now}, *wait)
		if err != nil {
			return err
		}
		if format.Is(show.AsJSON) {
			err = show.Indented(who.Stdout, verdict(watch))
		} else {
			err = printVerdict(who.Stdout, watch)
		}
		switch {
		case err != nil:
			return err
		case len(watch.Found()) > 0:
			return caller.Failure{Code: caller.Failed, Err: fmt.Errorf("%s: the same in %s", words.Count(len(watch.Found()), "difference"), words.Count(watch.Looks, "look"))}
		case !watch.Well():
			return caller.Failure{Code: caller.Pending, Err: fmt.Errorf("%s could not be looked at", words.Count(len(watch.Unseen()), "thing"))}
		}
		return nil
	})
	return command
}

// watchFor looks until all is well or the time is over, twice at least.
func watchFor(ctx context.Context, l looker, wait time.Duration) (*verify.Watch, error) {
	var watch verify.Watch
	for began := time.Now(); ; {
		look, err := l.look(ctx)
		if err != nil {
			return nil, err
		}
		watch.Add(look)
		if watch.Well() || watch.Looks > 1 && time.Since(began)+verify.Apart > wait {
			return &watch, nil
		}
		if !pause.For(ctx, verify.Apart) {
			return nil, context.Cause(ctx)
		}
	}
}

func printVerdict(to io.Writer, watch *verify.Watch) error {
	var rows [][]string
	for _, f := range watch.Found() {
		rows = append(rows, []string{f.What, f.Since.Local().Format(time.DateTime), f.Rule, f.Wrong})
	}
	if len(rows) > 0 {
		if err := show.Table(to, []string{"WHAT", "SINCE", "RULE", "WRONG"}, rows); err != nil {
			return err
		}
	}
	for _, u := range watch.Unseen() {
		if _, err := fmt.Fprintf(to, "not looked at: %s: %s\n", u.What, u.Why); err != nil {
			return err
		}
	}
	end := "."
	if watch.Well() {
		end = ": all is well."
	}
	_, err := fmt.Fprintf(to, "Compared in %s: %s%s\n", words.Count(watch.Looks, "look"), sizes(watch.Last), end)
	return err
}

// sizes says how much was compared.
func sizes(look verify.Look) string {
	asked := 0
	for i := range look.Agents {
		if look.Agents[i].Said != nil {
			asked++
		}
	}
	return strings.Join([]string{
		words.Count(len(look.Masters), "master"), words.Count(asked, "agent"), words.Count(len(look.Frameworks), "framework"),
		words.Count(len(look.Tasks), "task"), words.Count(len(look.Offers), "offer"), words.Count(len(look.Roles), "role"),
	}, ", ")
}

// verdict is what a watch has found, for programs.
func verdict(watch *verify.Watch) map[string]any {
	return map[string]any{
		"well": watch.Well(), "looks": watch.Looks, "compared": sizes(watch.Last),
		"broken": append([]verify.Finding{}, watch.Found()...), "not_looked_at": append([]verify.Unseen{}, watch.Unseen()...),
	}
}

// looker asks masters and agents.
type looker struct {
	client *client.Client
	now    func() time.Time
}

// look asks everybody once. It is an error if the leader does not answer, or denies anything.
func (l looker) look(ctx context.Context) (verify.Look, error) {
	look := verify.Look{At: l.now()}
	lists, err := l.lists(ctx)
	if err == nil {
		err = lists.Fill(&look)
	}
	if err == nil {
		err = l.masters(ctx, &look)
	}
	if err != nil {
		return look, err
	}
	l.agents(ctx, &look)
	return look, nil
}

// lists returns all lists of the leader.
func (l looker) lists(ctx context.Context) (lists views.Lists, err error) {
	operator, all := l.client.Operator(), &apiv1.ListRequest{}
	for _, read := range []func() error{
		func() error { return client.ReadInto(ctx, &lists.Agents, operator.ListAgents, all) },
		func() error { return client.ReadInto(ctx, &lists.Tasks, operator.ListTasks, &apiv1.ListTasksRequest{}) },
		func() error { return client.ReadInto(ctx, &lists.Offers, operator.ListOffers, all) },
		func() error { return client.ReadInto(ctx, &lists.Frameworks, operator.ListFrameworks, all) },
		func() error { return client.ReadInto(ctx, &lists.Roles, operator.ListRoles, all) },
	} {
		if err := read(); err != nil {
			return lists, err
		}
	}
	return lists, nil
}

// masters asks each master of itself.
func (l looker) masters(ctx context.Context, look *verify.Look) error {
	answer, err := l.client.Operator().ListMasters(ctx, &apiv1.ListRequest{})
	if err != nil {
		return err
	}
	members := answer.GetItems()
	said, failed := make([]verify.Master, len(members)), make([]error, len(members))
	var asked sync.WaitGroup
	for i, member := range members {
		asked.Go(func() { said[i], failed[i] = l.master(ctx, member) })
	}
	asked.Wait()
	for i, member := range members {
		switch err := client.Error(failed[i]); {
		case failed[i] == nil:
			look.Masters = append(look.Masters, said[i])
		case member.GetState() == "leader" && api.Is(err, api.Denied):
			return err
		default:
			look.Unseen = append(look.Unseen, verify.Unseen{
				What: "master " + member.GetId(), Why: l.client.WhySilent(member.GetGrpcAddress(), failed[i]),
			})
		}
	}
	return nil
}

func (l looker) master(ctx context.Context, member *apiv1.MasterView) (verify.Master, error) {
	if err := client.CheckAddress(member.GetGrpcAddress()); err != nil {
		return verify.Master{}, errors.New("it has said no address yet")
	}
	at := l.client.At(member.GetGrpcAddress())
	cluster, err := apiv1.NewOperatorServiceClient(at).GetCluster(ctx, &apiv1.GetClusterRequest{})
	if err != nil {
		return verify.Master{}, err
	}
	hash, err := apiv1.NewRaftServiceClient(at).StateHash(ctx, &apiv1.StateHashRequest{})
	return verify.Master{
		Name: member.GetId(), Cluster: cluster.GetClusterId(), Folder: hash.GetIncarnation(), Member: member.GetIncarnation(),
		Leads: cluster.GetLeaderId() == member.GetId(), Index: hash.GetAppliedIndex(), Hash: hash.GetHash(), Why: member.GetWhy(),
	}, err
}

// asksAtOnce is how many agents are asked at the same time.
const asksAtOnce = 32

// agents asks each agent that the leader takes to be there. Nothing is left to see of one that was given up.
func (l looker) agents(ctx context.Context, look *verify.Look) {
	places := make(chan struct{}, asksAtOnce)
	why := make([]error, len(look.Agents))
	var asked sync.WaitGroup
	for i := range look.Agents {
		a := &look.Agents[i]
		switch {
		case a.Here():
		case a.Gone():
			continue
		default:
			why[i] = fmt.Errorf("it is %s: %s", a.State, a.Why)
			continue
		}
		asked.Go(func() {
			places <- struct{}{}
			a.Said, why[i] = l.agent(ctx, a)
			<-places
		})
	}
	asked.Wait()
	for i := range look.Agents {
		if why[i] != nil {
			look.Unseen = append(look.Unseen, verify.Unseen{What: "agent " + string(look.Agents[i].ID), Why: caller.Sentence(why[i])})
		}
	}
}

// agentAnswerMax is how long an agent may take to say what it has.
const agentAnswerMax = 5 * time.Second

func (l looker) agent(ctx context.Context, a *verify.Agent) (*verify.Said, error) {
	ctx, cancel := context.WithTimeout(ctx, agentAnswerMax)
	defer cancel()
	ticket, _, err := l.client.ReadTicket(ctx, api.TaskRef{}, a.ID)
	if err != nil {
		return nil, err
	}
	answer, err := l.client.GetFromAgent(ctx, a.Address, "/v1/state", ticket)
	if err != nil {
		return nil, err
	}
	return views.Said(answer.Body)
}
