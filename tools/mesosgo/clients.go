//go:build clients

// Package mesosgo keeps the programs of mesos-go that its test runs among the requirements of the module. Nothing of
// them is compiled into Tender.
package mesosgo

import (
	_ "github.com/mesos/mesos-go/api/v1/cmd/example-executor"
	_ "github.com/mesos/mesos-go/api/v1/cmd/example-scheduler"
	_ "github.com/mesos/mesos-go/api/v1/cmd/msh"
)
