package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/trust/audit"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// changesShown is how many changes are shown if no limit is given.
const changesShown = 100

// auditWish holds the values of the flags.
type auditWish struct {
	span   spanFlags
	on, by string
	denied bool
	limit  int
}

func (w auditWish) check() error {
	if w.limit < 0 {
		return fmt.Errorf("--limit is %d; write how many are wanted, or 0 for all", w.limit)
	}
	if _, err := audit.ParseObject(w.on); err != nil {
		return fmt.Errorf("--on: %w", err)
	}
	return nil
}

// auditCommand asks each master which changes it was asked for, and merges the answers by time. It says which masters
// have not answered, and from when on one has forgotten something.
func auditCommand(who *caller.Caller) *cobra.Command {
	var w auditWish
	command := &cobra.Command{
		Use:   "audit",
		Short: "Show who has changed what",
		Long: "Show who has asked for which change, from where, of what, and with which result; the newest comes last. Each master\n" +
			"knows only what it was asked itself. So all masters are asked, and one that does not answer is named; no leader is\n" +
			"needed. Masters keep the newest thousands in memory; older ones are in the file audit.log of their data folders.\n\n" +
			"Here you also see who has got a ticket for 'tender exec' (GetExecTicket). What was run with it, and what an agent itself\n" +
			"has denied, is only in the file audit.log of that agent's data folder.\n\n" +
			"KIND of --on is one of " + strings.Join(audit.ObjectKinds, ", ") + ".",
		Example: "  tender audit --since 1h\n" +
			"  tender audit --since 14:00 --until 14:10\n" +
			"  tender audit --on agent/a1b2c3 -o wide\n" +
			"  tender audit --by ann --denied",
		Args: caller.Exactly(),
	}
	flags := command.Flags()
	flags.SortFlags = false
	w.span.add(flags)
	flags.StringVar(&w.on, "on", "", "show only changes of this object, KIND/NAME, such as agent/ID or role/eng")
	flags.StringVar(&w.by, "by", "", "show only what this principal has asked for")
	flags.BoolVar(&w.denied, "denied", false, "show only what was denied")
	flags.IntVar(&w.limit, "limit", changesShown, "show at most this many, the newest ones (0 = all)")
	format := show.FormatFlag(flags, show.AsTable, show.AsWide, show.AsJSON)
	completeFlag(command, "by", completeManyIDs(who, "principals"))
	completeFlag(command, "on", completeThings(who, audit.ObjectKinds))
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := saidEmpty(flags); err != nil {
			return caller.Usage(err)
		}
		if err := w.check(); err != nil {
			return caller.Usage(err)
		}
		since, until, err := w.span.read(who.Now())
		if err != nil {
			return caller.Usage(err)
		}
		asked := &apiv1.ListChangesRequest{Since: wire.TimeToProto(since), Until: wire.TimeToProto(until), On: w.on, By: w.by, Denied: w.denied}
		return who.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return showChanges(ctx, who, c, asked, w.limit, format)
		})(command, args)
	}
	return command
}

// spanFlags are --since and --until of what lists the past.
type spanFlags struct{ since, until string }

func (s *spanFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&s.since, "since", "", "show only what came later: after a time of the clock (14:00), a date (2026-01-02T14:00), or less than this ago (1h)")
	flags.StringVar(&s.until, "until", "", "show only what came earlier, written like --since")
}

// read returns the times that the flags name; zero: unrestricted on that side.
func (s *spanFlags) read(now time.Time) (since, until time.Time, err error) {
	for _, end := range []struct {
		flag, text string
		into       *time.Time
	}{{"since", s.since, &since}, {"until", s.until, &until}} {
		if end.text == "" {
			continue
		}
		if *end.into, err = settings.Before(end.text, now); err != nil {
			return since, until, fmt.Errorf("--%s: %w", end.flag, err)
		}
	}
	if s.since != "" && s.until != "" && !since.Before(until) {
		return since, until, fmt.Errorf("--since %s is not before --until %s", s.since, s.until)
	}
	return since, until, nil
}

func showChanges(ctx context.Context, who *caller.Caller, c *client.Client, asked *apiv1.ListChangesRequest, limit int, format *show.Format) error {
	answers, silent, err := client.AskEvery(ctx, c, func(ctx context.Context, master grpc.ClientConnInterface) (*apiv1.ListChangesResponse, error) {
		return askChanges(ctx, apiv1.NewOperatorServiceClient(master), asked, limit)
	})
	if err != nil {
		return err
	}
	changes, more := mergeChanges(answers, limit)
	if format.Is(show.AsJSON) {
		err = show.JSON(who.Stdout, &apiv1.ListChangesResponse{Items: changes})
	} else if len(changes) > 0 {
		header, rows := changesTable(changes, format.Is(show.AsWide))
		err = show.Table(who.Stdout, header, rows)
	}
	if err != nil {
		return err
	}
	tellCutChanges(who, len(changes), more, format.Is(show.AsJSON))
	tellSilentMasters(who, silent)
	if !more {
		tellForgottenChanges(who, answers, asked.GetSince())
	}
	return nil
}

// askChanges fetches all changes of one master, or the newest of them up to the limit.
func askChanges(ctx context.Context, master apiv1.OperatorServiceClient, asked *apiv1.ListChangesRequest, limit int) (*apiv1.ListChangesResponse, error) {
	all := &apiv1.ListChangesResponse{}
	list := func(ctx context.Context, r *apiv1.ListChangesRequest, options ...grpc.CallOption) (*apiv1.ListChangesResponse, error) {
		page, err := master.ListChanges(ctx, r, options...)
		all.MasterId, all.Since = page.GetMasterId(), page.GetSince()
		all.NextPageToken = page.GetNextPageToken()
		return page, err
	}
	items, _, err := client.All(ctx, list, limit, asked)
	all.Items = items
	return all, err
}

// mergeChanges merges the answers of masters, the newest change last and at most limit of them, and says whether there are
// more.
func mergeChanges(answers []*apiv1.ListChangesResponse, limit int) (changes []*apiv1.ChangeView, more bool) {
	for _, answer := range answers {
		slices.Reverse(answer.GetItems()) // changes of one master keep its order if their times are equal
		changes = append(changes, answer.GetItems()...)
		more = more || answer.GetNextPageToken() != ""
	}
	slices.SortStableFunc(changes, func(a, b *apiv1.ChangeView) int { return a.GetAt().AsTime().Compare(b.GetAt().AsTime()) })
	if limit > 0 && len(changes) > limit {
		return changes[len(changes)-limit:], true
	}
	return changes, more
}

func changesTable(changes []*apiv1.ChangeView, wide bool) (header []string, rows [][]string) {
	header = []string{"TIME", "WHO", "CALL", "ON", "RESULT"}
	if wide {
		header = append(header, "MASTER", "FROM", "INDEX", "REQUEST", "WHY")
	}
	for _, change := range changes {
		on, request := strings.Join(change.GetObjects(), ", "), change.GetRequest()
		switch {
		case change.GetRequestCut():
			on, request = "?", "(too long to be kept)"
		case request == "" && on == "":
			on, request = "?", "(not read)"
		}
		row := []string{change.GetAt().AsTime().Format(time.RFC3339), change.GetWho(), verbOf(change), on, change.GetResult()}
		if wide {
			row = append(row, change.GetMasterId(), change.GetFrom(), strconv.FormatUint(change.GetIndex(), 10), request, change.GetWhy())
		}
		rows = append(rows, row)
	}
	return header, rows
}

// markVerbs are the commands that make a call of MarkAgent, by the action that the request names; reserveVerbs those of
// Reserve.
var (
	markVerbs = map[apiv1.AgentAction]string{
		apiv1.AgentAction_DRAIN: "drain", apiv1.AgentAction_DEACTIVATE: "deactivate", apiv1.AgentAction_REACTIVATE: "reactivate",
		apiv1.AgentAction_MARK_GONE: "gone", apiv1.AgentAction_REMOVE: "remove",
	}
	reserveVerbs = map[apiv1.OperationKind]string{
		apiv1.OperationKind_RESERVE: "reserve", apiv1.OperationKind_UNRESERVE: "unreserve",
		apiv1.OperationKind_CREATE_VOLUME: "volume create", apiv1.OperationKind_DESTROY_VOLUME: "volume destroy",
	}
)

// verbOf says what was asked for: the command, for a call that serves several commands, otherwise the call.
func verbOf(change *apiv1.ChangeView) (verb string) {
	var mark apiv1.MarkAgentRequest
	var reserve apiv1.ReserveRequest
	var window apiv1.SetMaintenanceRequest
	var role apiv1.SetRoleRequest
	reads := func(into proto.Message) bool { return protojson.Unmarshal([]byte(change.GetRequest()), into) == nil }
	switch call := change.GetCall(); {
	case call == apiv1.OperatorService_MarkAgent_FullMethodName && reads(&mark):
		verb = markVerbs[mark.GetAction()]
	case call == apiv1.OperatorService_Reserve_FullMethodName && reads(&reserve):
		verb = reserveVerbs[reserve.GetAction()]
	case call == apiv1.OperatorService_SetMaintenance_FullMethodName && reads(&window):
		if verb = "maintenance set"; window.GetWindow() == nil {
			verb = "maintenance clear"
		}
	case call == apiv1.OperatorService_SetRole_FullMethodName && reads(&role):
		switch {
		case role.Weight != nil:
			verb = "weight"
		case role.Priority != nil:
			verb = "priority"
		case role.Guarantee != nil || role.Limit != nil:
			verb = "quota"
		}
	}
	return cmp.Or(verb, shortCall(change.GetCall()))
}

// shortCall returns a method without its service, or a route without its listener.
func shortCall(call string) string {
	if strings.HasPrefix(call, "/") {
		return call[strings.LastIndexByte(call, '/')+1:]
	}
	return strings.TrimPrefix(call, "master ")
}

func tellCutChanges(who *caller.Caller, shown int, more, forPrograms bool) {
	switch {
	case forPrograms:
	case shown == 0:
		fmt.Fprintln(who.Stderr, "no changes")
	case more:
		fmt.Fprintln(who.Stderr, "there are older ones; --limit has cut the list")
	}
}

// tellSilentMasters names the masters that have not answered.
func tellSilentMasters(who *caller.Caller, silent []client.Silent) {
	if len(silent) == 0 {
		return
	}
	names := make([]string, len(silent))
	for i, master := range silent {
		names[i] = master.ID + " (" + master.Why + ")"
	}
	they := "they were"
	if len(silent) == 1 {
		they = "it was"
	}
	fmt.Fprintf(who.Stderr, "no answer from %s; what %s asked is missing\n", strings.Join(names, ", "), they)
}

// tellForgottenChanges says from when on masters know all changes, if older ones were asked for.
func tellForgottenChanges(who *caller.Caller, answers []*apiv1.ListChangesResponse, since *timestamppb.Timestamp) {
	for _, answer := range answers {
		if from := answer.GetSince(); from != nil && (since == nil || since.AsTime().Before(from.AsTime())) {
			fmt.Fprintf(who.Stderr, "%s remembers what it was asked since %s; what was before may be in its audit log\n",
				answer.GetMasterId(), from.AsTime().Format(time.RFC3339))
		}
	}
}
