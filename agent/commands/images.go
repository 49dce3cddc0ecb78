package commands

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tenderhq/tender/agent/images/setup"
	"github.com/tenderhq/tender/agent/walls/spaces"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/protocol"
)

// The paths at which a task in an image finds its sandbox and the folder of its group.
const (
	imagedSandbox = "/sandbox"
	imagedShared  = "/shared"
)

// programInImage returns the program of a task's command, or else that of its image. The helper finds its path within
// the image.
func programInImage(task *executor.Task) (program, error) {
	p, err := startInImage(task)
	if err != nil {
		return p, err
	}
	var argv []string // that of the task
	if task.Command != nil {
		argv = task.Command.Argv
		if task.Command.Shell != "" {
			return p.run("/bin/sh", "-c", task.Command.Shell)
		}
	}
	if len(argv) == 0 {
		argv = p.image.Cmd
	}
	return p.run(slices.Concat(p.image.Entrypoint, argv)...)
}

// programBeside returns the program of a command that runs beside a task.
func programBeside(task *executor.Task) (program, error) {
	if task.Image == "" {
		return programOf(task)
	}
	p, err := startInImage(task)
	switch {
	case err != nil:
		return p, err
	case task.Command.Shell != "":
		return p.run("/bin/sh", "-c", task.Command.Shell)
	}
	return p.run(task.Command.Argv...)
}

// run returns p with this command line.
func (p program) run(argv ...string) (program, error) {
	if len(argv) == 0 || argv[0] == "" {
		return p, errors.New("neither the task nor its image names a program; give it a command")
	}
	p.path, p.argv = argv[0], argv
	return p, nil
}

// startInImage returns all that programs in the task's image are started with, except their command line.
func startInImage(task *executor.Task) (program, error) {
	says, err := setup.Read(task.Sandbox)
	if err != nil {
		return program{}, fmt.Errorf("what its image says can't be read: %w", err)
	}
	var command api.Command
	if task.Command != nil {
		command = *task.Command
	}
	return program{
		env: imagedEnvironment(task, command.Env, says), sandbox: task.Sandbox, dir: command.Dir, shared: task.Shared,
		volumes: volumesOf(task), gpus: protocol.GPUIndices(task.GPUs), user: says.User, image: &says,
	}, nil
}

// imagedEnvironment returns the environment of a task in an image. Variables of the image are replaced by those that
// the task asks for, and these by TENDER_TASK_*.
func imagedEnvironment(task *executor.Task, asked map[string]string, says setup.Setup) []string {
	all := map[string]string{"HOME": imagedSandbox}
	if says.Home != "" {
		all["HOME"] = says.Home
	}
	for _, variable := range says.Env {
		if name, value, is := strings.Cut(variable, "="); is && name != "" {
			all[name] = value
		}
	}
	maps.Copy(all, asked)
	like := *task
	like.Command = &api.Command{Env: all}
	like.Sandbox = imagedSandbox
	if task.Shared != "" {
		like.Shared = imagedShared
	}
	env, _ := environment(&like, nil)
	return env
}

// root returns what the helper makes the task's root of.
func (c *cells) root(p program) *spaces.Root {
	root := &spaces.Root{
		Folder: filepath.Join(p.sandbox, setup.Folder), Layers: p.image.Layers, Begin: p.begin(),
		Shown: []spaces.Shown{{From: p.sandbox, At: imagedSandbox}},
	}
	for _, volume := range p.volumes { // the links in the sandbox lead to these paths
		folder := filepath.Join(c.Volumes, string(volume))
		root.Shown = append(root.Shown, spaces.Shown{From: folder, At: folder})
	}
	if p.shared != "" {
		root.Shown = append(root.Shown, spaces.Shown{From: p.shared, At: imagedShared})
	}
	return root
}

// begin returns the program's working directory.
func (p program) begin() string {
	switch {
	case filepath.IsAbs(p.dir):
		return filepath.Clean(p.dir)
	case p.image == nil:
		return filepath.Join(p.sandbox, p.dir)
	case p.dir != "":
		return filepath.Join(imagedSandbox, p.dir)
	case p.image.WorkingDir != "":
		return filepath.Join("/", p.image.WorkingDir)
	}
	return imagedSandbox
}
