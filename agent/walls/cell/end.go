package cell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tenderhq/tender/internal/pause"
)

// Populated reports whether a process is in the cell, or in a cell inside it. Zombies do not count: they run nothing
// and hold nothing. A cell that does not exist holds no process.
func (c Cell) Populated() (bool, error) {
	if c.Unified == "" {
		return len(c.listed()) > 0, nil
	}
	text, err := read(c.Unified, "cgroup.events")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return false, nil
	}
	return strings.Contains(text, "populated 1"), err
}

// Kill sends SIGKILL to all processes of the cell and of the cells inside it. With version 2 none can escape by
// starting another one. It does not wait for their end.
func (c Cell) Kill() error {
	if c.Unified == "" {
		return c.killListed()
	}
	err := write(c.Unified, "cgroup.kill", "1")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}

// killListed kills the processes in the cell's folders one by one. It first forbids new processes there, if the cell
// has the controller for that. So if it is called again and again, it comes to an end: none can start another one any
// more.
func (c Cell) killListed() error {
	if c.Pids != "" {
		for _, folder := range tree(c.Pids) {
			if err := write(folder, "pids.max", "0"); ignoreGone(err) != nil {
				return err
			}
		}
	}
	for _, pid := range c.listed() {
		if pid == os.Getpid() {
			continue // one of our threads is in the cell for a moment, to start a process there
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("process %d of %s can't be killed: %w", pid, c, err)
		}
	}
	return nil
}

// listed returns the processes in the cell and in the cells inside it, in any of its hierarchies: a process may have
// been moved out in some hierarchies and not in others.
func (c Cell) listed() (pids []int) {
	for _, folder := range c.folders() {
		for _, below := range tree(folder) {
			pids = append(pids, readProcesses(below)...)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// tree returns a folder and all folders below it.
func tree(folder string) []string {
	all := []string{folder}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil // the folder is not there
	}
	for _, entry := range entries {
		if entry.IsDir() {
			all = append(all, tree(filepath.Join(folder, entry.Name()))...)
		}
	}
	return all
}

func ignoreGone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}

// End kills all processes in the cell, waits until none is left, and removes the cell.
func (c Cell) End(ctx context.Context) error {
	const pauseMin, pauseMax = 200 * time.Microsecond, 50 * time.Millisecond
	for wait := pauseMin; ; wait = min(2*wait, pauseMax) {
		gone, err := c.TryEnd()
		if gone || err != nil {
			return err
		}
		if !pause.For(ctx, wait) {
			return fmt.Errorf("processes of %s do not end: %w", c, ctx.Err())
		}
	}
}

// TryEnd kills all processes in the cell, and removes the cell if none is left by now. It reports whether the cell is
// gone.
func (c Cell) TryEnd() (gone bool, err error) {
	if !c.Exists() {
		return true, nil
	}
	if err := c.Kill(); err != nil {
		return false, err
	}
	if populated, err := c.Populated(); populated || err != nil {
		return false, err
	}
	err = c.Remove()
	if errors.Is(err, syscall.EBUSY) { // a process was moved out in one hierarchy and not in another
		return false, c.killListed()
	}
	return err == nil, err
}
