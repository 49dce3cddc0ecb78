package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

// reserveCommands returns the commands that set resources of agents aside for roles.
func reserveCommands(who *caller.Caller) []*cobra.Command {
	return []*cobra.Command{
		reserveCommand(who, "reserve", apiv1.OperationKind_RESERVE, "Set free resources of an agent aside for a role",
			"Reserve free resources of an agent for a role and the roles below it. Offers of the agent are rescinded and made anew."),
		reserveCommand(who, "unreserve", apiv1.OperationKind_UNRESERVE, "Let everybody use what was reserved",
			"End a reservation, so that every role may use the resources. What a task uses or a volume holds stays reserved."),
		volumeCommand(who),
	}
}

func reserveCommand(who *caller.Caller, name string, action apiv1.OperationKind, short, long string) *cobra.Command {
	var role, tag string
	command := &cobra.Command{
		Use: name + " AGENT RESOURCES", Short: short, Long: long,
		Example: "  tender " + name + " agent-1 'cpus:2;mem:1024' --role web",
		Args:    caller.Exactly("AGENT", "RESOURCES"), ValidArgsFunction: completeIDs(who, "agents"),
		RunE: who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if _, err := settings.ParseResources(args[1]); err != nil {
				return caller.Usage(err)
			}
			return reserveOn(ctx, who, c, args[0], &apiv1.ReserveRequest{Role: role, Action: action, Resources: args[1], Tag: tag})
		}),
	}
	roleFlag(command, &role)
	tagFlag(command, &tag)
	return command
}

func roleFlag(command *cobra.Command, role *string) {
	command.Flags().StringVar(role, "role", "", "role that it is for (required)")
}

func tagFlag(command *cobra.Command, tag *string) {
	command.Flags().StringVar(tag, "tag", "", "tag of the reservation: only who names it uses what it is on")
}

func reserveOn(ctx context.Context, who *caller.Caller, c *client.Client, agent string, request *apiv1.ReserveRequest) error {
	if err := roleOf(request.GetRole()); err != nil {
		return err
	}
	if request.GetAction() == apiv1.OperationKind_CREATE_VOLUME && request.GetSizeMb() <= 0 {
		return caller.Usagef("a volume of %d MB can't be made; write --size MB, such as --size 1024", request.GetSizeMb())
	}
	request.AgentId = agent
	answer, err := c.Operator().Reserve(ctx, request)
	return who.TellAnswer(answer, nouns.Agents.WhereListed(err))
}

// roleOf refuses a role that no reservation can have.
func roleOf(role string) error {
	if role == "" {
		return caller.Usagef("--role ROLE is missing: the role that the resources are, or were, reserved for")
	}
	if err := api.Role(role).Check(); err != nil {
		return caller.Usage(err)
	}
	return nil
}

// volumeIsThere refuses the name of a volume that no agent has.
func volumeIsThere(ctx context.Context, c *client.Client, name string) error {
	agents, err := nouns.Agents.List(ctx, c, &nouns.Query{})
	if err != nil {
		return err
	}
	for _, item := range agents.Items {
		agent := item.Message.(*apiv1.AgentView)
		volumes, err := nouns.VolumesOf(agent)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(volumes, func(v nouns.Volume) bool { return string(v.Resource.Volume) == name }) ||
			slices.ContainsFunc(agent.GetOrphaned(), func(o *apiv1.OrphanedVolume) bool { return o.GetVolume() == name }) {
			return nil
		}
	}
	return nouns.NoVolume(name)
}

func volumeCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{Use: "volume", Short: "Create, destroy and list persistent volumes"}
	var role, tag string
	var size int64
	create := &cobra.Command{
		Use: "create AGENT VOLUME", Short: "Create a persistent volume on disk that is reserved for a role",
		Args: caller.Exactly("AGENT", "VOLUME"), ValidArgsFunction: completeIDs(who, "agents"),
		RunE: who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			return reserveOn(ctx, who, c, args[0], &apiv1.ReserveRequest{
				Role: role, Action: apiv1.OperationKind_CREATE_VOLUME, Volume: args[1], SizeMb: size, Tag: tag,
			})
		}),
	}
	roleFlag(create, &role)
	tagFlag(create, &tag)
	create.Flags().Int64Var(&size, "size", 0, "size of the volume in MB")
	var force bool
	destroy := &cobra.Command{
		Use: "destroy AGENT VOLUME", Short: "Destroy a volume with its data; its disk stays reserved",
		Long: "Destroy a volume with its data. Its disk stays reserved. On a terminal it asks first; elsewhere it needs --force.\n" +
			"This can't be undone.",
		Args: caller.Exactly("AGENT", "VOLUME"), ValidArgsFunction: completeIDs(who, "agents"),
		RunE: who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if err := roleOf(role); err != nil {
				return err
			}
			if !force { // with --force the leader says whether it exists
				if err := volumeIsThere(ctx, c, args[1]); err != nil {
					return err
				}
			}
			if err := who.Confirm(ctx, force, fmt.Sprintf("destroy volume %s of agent %s with all its data", args[1], args[0])); err != nil {
				return err
			}
			return reserveOn(ctx, who, c, args[0], &apiv1.ReserveRequest{
				Role: role, Action: apiv1.OperationKind_DESTROY_VOLUME, Volume: args[1],
			})
		}),
	}
	roleFlag(destroy, &role)
	destroy.Flags().BoolVar(&force, "force", false, "do not ask first")
	list := &cobra.Command{Use: "list", Short: "List the volumes of all agents", Args: caller.Exactly(), RunE: who.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
		return listVolumes(ctx, who, c)
	})}
	add(command, "", create, destroy, list)
	return command
}

func listVolumes(ctx context.Context, who *caller.Caller, c *client.Client) error {
	agents, err := nouns.Agents.List(ctx, c, &nouns.Query{})
	if err != nil {
		return err
	}
	var rows [][]string
	for _, item := range agents.Items {
		agent := item.Message.(*apiv1.AgentView)
		volumes, err := nouns.VolumesOf(agent)
		if err != nil {
			return err
		}
		for _, v := range volumes {
			rows = append(rows, []string{
				string(v.Resource.Volume), v.Agent, string(v.Resource.Reserved), v.Resource.Scalar.String(), yesNo(v.Used), v.Why(),
			})
		}
		for _, o := range agent.GetOrphaned() {
			rows = append(rows, []string{
				o.GetVolume(), agent.GetId(), o.GetRole(), strconv.FormatInt(o.GetSizeMb(), 10), "orphaned", o.GetWhy(),
			})
		}
	}
	return writeTable(who, "volumes", []string{"VOLUME", "AGENT", "ROLE", "MB", "IN USE", "WHY"}, rows)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
