package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// grantFlags adds the flags that restrict a grant.
func grantFlags(command *cobra.Command, g *apiv1.PrincipalGrant) {
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&g.Role, "role", "", "only in this role and the roles below it")
	flags.StringVar(&g.Framework, "framework", "", "only for this framework, by its ID or its name")
	flags.StringVar(&g.Agent, "agent", "", "only on this agent, by its ID or its hostname")
	flags.StringVar(&g.User, "user", "", "with run: tasks may run as this user of the agents' machines; '*' = as any user")
}

// verbsHelp says what can be granted.
func verbsHelp() string {
	return "VERB is one of\n" +
		"  view     look at agents, frameworks, tasks, offers, roles and metrics\n" +
		"  run      subscribe as a framework, launch tasks, look at one's own tasks and end them\n" +
		"  operate  all of view, and whatever ends or moves work: kill, remove a framework, drain, maintenance\n" +
		"  admin    everything, including granting rights\n" +
		wrapped("or a single action: "+strings.Join(rights.Actions(), ", ")+".")
}

// helpColumnsMax is how wide a line of help is.
const helpColumnsMax = 120

// wrapped is the text in lines that fit.
func wrapped(text string) string {
	var out strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
		case column+1+len(word) > helpColumnsMax:
			out.WriteByte('\n')
			column = 0
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += len(word)
	}
	return out.String()
}

// checkGrant refuses a grant that no master would accept.
func checkGrant(m *apiv1.PrincipalGrant) error {
	if err := wire.GrantFromProto(m).Check(); err != nil {
		return caller.Usage(err)
	}
	return nil
}

func grantCommand(who *caller.Caller) *cobra.Command {
	grant := &apiv1.PrincipalGrant{}
	command := &cobra.Command{
		Use:   "grant PRINCIPAL VERB",
		Short: "Give a person or a framework a right",
		Long: "Give a principal, which is a person or a framework, a right. " + verbsHelp() + "\n\n" +
			"A grant with a role, framework or agent covers only that one. You can grant only what you may do yourself. A grant takes\n" +
			"effect at once: connections of the principal end, and come back with the new rights.",
		Example: "  tender grant etl run --role eng/etl --user etl\n" +
			"  tender grant ann operate --role eng",
		Args:              caller.Exactly("PRINCIPAL", "VERB"),
		ValidArgsFunction: completeIDs(who, "principals"),
	}
	grantFlags(command, grant)
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
		grant.Verb = args[1]
		if err := checkGrant(grant); err != nil {
			return err
		}
		return who.TellAnswer(c.Operator().Grant(ctx, &apiv1.GrantRequest{Principal: args[0], Grant: grant}))
	})
	return command
}

func revokeCommand(who *caller.Caller) *cobra.Command {
	grant := &apiv1.PrincipalGrant{}
	var why string
	var force bool
	command := &cobra.Command{
		Use:   "revoke PRINCIPAL [VERB]",
		Short: "Take back a right, or end a principal",
		Long: "Take back a right; give the same VERB and flags with which it was granted. Without VERB, end the principal for good: its\n" +
			"certificates and tokens become invalid, its connections end at once, and its name can't be used again for 14 days. That\n" +
			"can't be undone.",
		Example: "  tender revoke etl run --role eng/etl --user etl\n" +
			"  tender revoke etl --why 'its token leaked'",
		Args:              caller.Between(1, "PRINCIPAL", "VERB"),
		ValidArgsFunction: completeIDs(who, "principals"),
	}
	grantFlags(command, grant)
	command.Flags().StringVar(&why, "why", "", "reason, for those who are refused and for the audit log")
	command.Flags().BoolVar(&force, "force", false, "do not ask before a principal is ended")
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
		request := &apiv1.RevokeRequest{Principal: args[0], Why: why}
		if len(args) == 2 {
			grant.Verb, request.Grant = args[1], grant
			if err := checkGrant(grant); err != nil {
				return err
			}
		} else {
			for _, name := range []string{"role", "framework", "agent", "user"} {
				if command.Flags().Changed(name) {
					return caller.Usagef("--%s belongs to a grant; name its VERB too, or leave the flag out to end %s", name, args[0])
				}
			}
			if !force { // with --force the leader says whether it exists
				if err := known(ctx, c, args[0]); err != nil {
					return err
				}
			}
			if err := who.Confirm(ctx, force, "end "+args[0]+" for ever"); err != nil {
				return err
			}
		}
		answer, err := c.Operator().Revoke(ctx, request)
		return who.TellAnswer(answer, nouns.Principals.WhereListed(err))
	})
	return command
}

// known refuses the name of a principal that does not exist, if the caller may see principals.
func known(ctx context.Context, c *client.Client, name string) error {
	l, err := nouns.Principals.List(ctx, c, &nouns.Query{Prefix: name, All: true})
	if err != nil || slices.ContainsFunc(l.Items, func(item nouns.Item) bool { return item.ID == name }) {
		return nil //nolint:nilerr // the cluster decides
	}
	return nouns.Principals.Nobody(nouns.Query{Prefix: name})
}

func whoamiCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{
		Use:   "whoami",
		Short: "Show who you are to the cluster, and what you may do",
		Args:  caller.Exactly(),
	}
	format := show.FormatFlag(command.Flags(), show.AsText, show.AsJSON)
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
		me, err := c.Operator().WhoAmI(ctx, &apiv1.WhoAmIRequest{})
		switch {
		case err != nil:
			return err
		case format.Is(show.AsJSON):
			return show.JSON(who.Stdout, me)
		case me.GetKind() == string(rights.Anybody):
			_, err = fmt.Fprintln(who.Stdout, "anybody: this cluster has no identities, so everybody may do everything")
			return err
		}
		return show.Fields(who.Stdout, [][2]string{
			{"Kind", me.GetKind()}, {"Name", me.GetName()}, {"May", strings.Join(nouns.GrantTexts(me.GetGrants()), "\n")},
		})
	})
	return command
}

func canICommand(who *caller.Caller) *cobra.Command {
	wish := &apiv1.PrincipalGrant{}
	command := &cobra.Command{
		Use:   "can-i VERB",
		Short: "Say whether you may do something",
		Long: "Say whether you may do something. If not, say which grant is missing, and exit with 1. " + verbsHelp() + "\n\n" +
			"Without flags it asks about the whole cluster.",
		Example: "  tender can-i kill-task --role eng/web",
		Args:    caller.Exactly("VERB"),
	}
	grantFlags(command, wish)
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
		wish.Verb = args[0]
		if err := checkGrant(wish); err != nil {
			return err
		}
		answer, err := c.Operator().CanI(ctx, &apiv1.CanIRequest{Wish: wish})
		switch {
		case err != nil:
			return err
		case !answer.GetAllowed():
			return errors.New("no: " + answer.GetWhy())
		}
		_, err = fmt.Fprintln(who.Stdout, "yes")
		return err
	})
	return command
}
