package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
)

// secretCommand sets, lists and removes secrets of tasks. A value comes from a file or from standard input, and is
// printed nowhere.
func secretCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{Use: "secret", Short: "Manage the passwords and keys that tasks are given"}
	var q nouns.Query
	list := listCommand(who, nouns.Secrets, &q, "List the secrets, without their values")
	list.Flags().StringVar(&q.Role, "role", "", "list only those of this role and the roles below it")
	add(command, "", setSecretCommand(who), removeSecretCommand(who), list)
	return command
}

func setSecretCommand(who *caller.Caller) *cobra.Command {
	var file string
	command := &cobra.Command{
		Use:   "set ROLE/NAME",
		Short: "Give a secret a value, from a file or standard input",
		Long: "Give a secret a value: that of a file, or what comes on standard input, byte for byte, at most 64 KiB. Tasks that start\n" +
			"from now on get it if their framework is in the role of the secret or in a role above it; running tasks keep what they\n" +
			"have. Masters store it encrypted, and pass it only to agents that start such tasks.",
		Example: "  printf %s \"$PASSWORD\" | tender secret set eng/etl/db\n" +
			"  tender secret set eng/tls --value-file server.key",
		Args: func(command *cobra.Command, args []string) error {
			if len(args) > 1 {
				return caller.Usage(errors.New("a value on the command line can be seen by everybody on this machine, as in 'ps': " +
					"write it to standard input, or name a file with --value-file; and change this one, which was seen"))
			}
			return caller.Exactly("ROLE/NAME")(command, args)
		},
	}
	command.Flags().StringVar(&file, "value-file", "", "file that contains the value (default: standard input)")
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
		if err := api.SecretID(args[0]).Check(); err != nil {
			return caller.Usage(err)
		}
		value, err := readSecret(who, file)
		if err != nil {
			return err
		}
		answer, err := c.Operator().SetSecret(ctx, &apiv1.SetSecretRequest{Name: args[0], Value: value})
		if err == nil && value[len(value)-1] == '\n' {
			answer.Message += "; it ends with a new line, which is part of it"
		}
		return who.TellAnswer(answer, err)
	})
	return command
}

// readSecret reads the value from a file or, without a name, from standard input.
func readSecret(who *caller.Caller, name string) ([]byte, error) {
	from, terminal := who.Stdin, false
	if stdin, is := who.Stdin.(*os.File); is {
		terminal = term.IsTerminal(int(stdin.Fd()))
	}
	switch {
	case name != "":
		file, err := os.Open(name)
		if err != nil {
			return nil, caller.Usage(fmt.Errorf("--value-file: %w", err))
		}
		defer file.Close()
		from = file
	case terminal:
		return nil, caller.Usage(errors.New("nothing comes on standard input, as it is a terminal; pipe the value in, or name a file with --value-file"))
	}
	value, err := io.ReadAll(io.LimitReader(from, api.SecretBytesMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the value can't be read: %w", err)
	case len(value) == 0:
		return nil, caller.Usage(errors.New("the value is empty"))
	case len(value) > api.SecretBytesMax:
		return nil, caller.Usage(fmt.Errorf("the value has more than %d bytes, which is the most", api.SecretBytesMax))
	}
	return value, nil
}

func removeSecretCommand(who *caller.Caller) *cobra.Command {
	return &cobra.Command{
		Use: "rm ROLE/NAME", Short: "Remove a secret", Args: caller.Exactly("ROLE/NAME"),
		Long: "Remove a secret. Tasks that already have it keep it. Tasks that name it and are launched from now on end as ERROR\n" +
			"(SECRET_UNAVAILABLE).",
		RunE: who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			return who.TellAnswer(c.Operator().RemoveSecret(ctx, &apiv1.RemoveSecretRequest{Name: args[0]}))
		}),
	}
}
