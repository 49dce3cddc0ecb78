// Package secretcmd implements `tender secret`: it sets, lists and removes secrets of tasks. A value comes from a file
// or from standard input, and is printed nowhere.
package secretcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/cli/client"
)

// Env is what the commands need from their caller.
type Env struct {
	Stdin    io.Reader
	Terminal bool // whether Stdin is a terminal
	// WithClient makes the function of a command that calls the leading master.
	WithClient func(func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error
	// Exactly makes the check of a command's arguments from their names; Usage marks an error as a mistake in how the
	// command was written.
	Exactly func(names ...string) cobra.PositionalArgs
	Usage   func(error) error
	// Said prints the answer of a master.
	Said func(*apiv1.ActionResponse) error
}

// Commands returns set and rm.
func (e Env) Commands() []*cobra.Command {
	return []*cobra.Command{e.setCommand(), e.removeCommand()}
}

// List asks for the secrets of a role and of all roles below it; "" is all.
func List(ctx context.Context, c *client.Client, role string) (*apiv1.ListSecretsResponse, error) {
	items, _, err := client.All(ctx, c.Operator().ListSecrets, 0, func(token string, limit int32) *apiv1.ListRequest {
		return &apiv1.ListRequest{Role: role, Limit: limit, PageToken: token}
	})
	return &apiv1.ListSecretsResponse{Items: items}, err
}

// Header is the first line of a table of secrets.
var Header = []string{"SECRET", "SET", "BY"}

// Rows returns the lines below the header.
func Rows(answer *apiv1.ListSecretsResponse) (rows [][]string) {
	for _, secret := range answer.GetItems() {
		rows = append(rows, []string{secret.GetName(), secret.GetSet().AsTime().Format(time.RFC3339), cmp.Or(secret.GetBy(), "-")})
	}
	return rows
}

func (e Env) setCommand() *cobra.Command {
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
				return e.Usage(errors.New("a value on the command line can be seen by everybody on this machine, as in 'ps': " +
					"write it to standard input, or name a file with --value-file; and change this one, which was seen"))
			}
			return e.Exactly("ROLE/NAME")(command, args)
		},
	}
	command.Flags().StringVar(&file, "value-file", "", "file that contains the value (default: standard input)")
	command.RunE = e.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
		if err := api.SecretID(args[0]).Check(); err != nil {
			return e.Usage(err)
		}
		value, err := e.read(file)
		if err != nil {
			return err
		}
		answer, err := c.Operator().SetSecret(ctx, &apiv1.SetSecretRequest{Name: args[0], Value: value})
		if err != nil {
			return err
		}
		if value[len(value)-1] == '\n' {
			answer.Message += "; it ends with a new line, which is part of it"
		}
		return e.Said(answer)
	})
	return command
}

// read reads the value.
func (e Env) read(name string) ([]byte, error) {
	from := e.Stdin
	switch {
	case name != "":
		file, err := os.Open(name)
		if err != nil {
			return nil, e.Usage(fmt.Errorf("--value-file: %w", err))
		}
		defer file.Close()
		from = file
	case e.Terminal:
		return nil, e.Usage(errors.New("nothing comes on standard input, as it is a terminal; pipe the value in, or name a file with --value-file"))
	}
	value, err := io.ReadAll(io.LimitReader(from, api.SecretBytesMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the value can't be read: %w", err)
	case len(value) == 0:
		return nil, e.Usage(errors.New("the value is empty"))
	case len(value) > api.SecretBytesMax:
		return nil, e.Usage(fmt.Errorf("the value has more than %d bytes, which is the most", api.SecretBytesMax))
	}
	return value, nil
}

func (e Env) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm ROLE/NAME", Short: "Remove a secret", Args: e.Exactly("ROLE/NAME"),
		Long: "Remove a secret. Tasks that already have it keep it. Tasks that name it and are launched from now on end as ERROR\n" +
			"(SECRET_UNAVAILABLE).",
		RunE: e.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			answer, err := c.Operator().RemoveSecret(ctx, &apiv1.RemoveSecretRequest{Name: args[0]})
			if err != nil {
				return err
			}
			return e.Said(answer)
		}),
	}
}
