package framework_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
)

// Run blocks. Its error says why it has ended, with a kind to switch on. Here the Config can't be right, and everything
// that is wrong with it is reported at once.
func ExampleRun() {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	err := framework.Run(ctx, framework.Config{
		Name:            "greeter",
		Masters:         []string{"10.0.0.1:5060", "10.0.0.2"},
		FailoverTimeout: -time.Minute,
		TeardownAtEnd:   true,
	}, &greeter{end: end})
	switch {
	case err == nil:
		fmt.Println("the context has ended, or the framework was torn down")
	case errors.Is(err, framework.ErrFenced):
		fmt.Println("another instance has the tasks now; do not come back:", err)
	case api.Is(err, api.Removed):
		fmt.Println("an operator has removed the framework:", err)
	default:
		fmt.Println(err)
	}
	// Output:
	// framework.config: greeter: invalid: master "10.0.0.2" is no host:port: address 10.0.0.2: missing port in address
	// FailoverTimeout is -1m0s; it must not be negative
}
