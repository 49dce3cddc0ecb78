//go:build !linux

package main

import (
	"context"
	"errors"
	"syscall"
)

const apart = "apart"

func runApart(context.Context, []string) (ended bool, err error) { return false, nil }

func mountSmallDisk(string) (*smallDisk, error) {
	return nil, errors.New("only Linux is known to let us")
}

func ownMounts(*syscall.SysProcAttr) {}

func bootAs(string, []string) error { return errors.New("only Linux is known to let us") }

func (d *smallDisk) unmount() {}
