package images

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/images/setup"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
)

// Wish asks for an image for a task.
type Wish struct {
	Task      api.TaskRef
	Reference string
	// Sandbox is the task's sandbox, which exists. Its owner is the user that the task runs as.
	Sandbox beneath.Place
	// UserAsked says that the task itself asks for that user. If it does not, and the sandbox is root's, the image
	// names the user: root may become any user. No other user becomes another one because of an image.
	UserAsked bool
	// Copied says that the task gets a copy of the image's files.
	Copied bool
}

// Prepare pulls an image and writes into the sandbox what the task is started with. It returns the image with its
// digest. If an image was prepared for the same task before, it is used again, whatever its tag now stands for. The
// task uses the image until Release.
func (s *Store) Prepare(ctx context.Context, w Wish) (pinned string, err error) {
	reference := w.Reference
	if before, err := setup.Read(w.Sandbox.Path()); err == nil && before.Image != "" {
		reference = before.Image
	}
	image, err := s.Pull(ctx, w.Task, reference)
	if err != nil {
		return "", err
	}
	says, err := w.setupOf(image)
	if err == nil {
		err = w.write(ctx, image, says)
	}
	if err != nil {
		s.Release(w.Task)
		return "", explain(w.Reference, err)
	}
	return image.Reference, nil
}

// setupOf returns what the task is started with.
func (w Wish) setupOf(image Image) (says setup.Setup, err error) {
	info, err := w.Sandbox.Lstat(".")
	if err != nil {
		return says, err
	}
	user := entry.OwnerOf(info)
	user.Groups = entry.GroupsOf(user.UID)
	home := image.HomeOf(user.UID)
	if user.IsRoot() && !w.UserAsked {
		if user, home, err = image.UserNamed(image.Config.User); err != nil {
			return says, err
		}
	}
	stop, err := image.StopSignal()
	return setup.Setup{
		Image: image.Reference, Layers: image.Layers, Env: image.Config.Env, Entrypoint: image.Config.Entrypoint, Cmd: image.Config.Cmd,
		WorkingDir: image.Config.WorkingDir, StopSignal: stop, User: user, Home: home,
	}, err
}

// write gives the sandbox to the task's user, and writes the setup and the folders for the task's root into it.
func (w Wish) write(ctx context.Context, image Image, says setup.Setup) error {
	sandbox, err := w.Sandbox.Open()
	if err != nil {
		return err
	}
	err = sandbox.RemoveAll(setup.Folder) // left by a start that failed
	if err = errors.Join(err, sandbox.Close()); err != nil {
		return err
	}
	if sandbox, err = w.Sandbox.Make(says.User, beneath.Private); err != nil {
		return err
	}
	defer sandbox.Close()
	folder, err := setup.Make(sandbox)
	if err != nil {
		return err
	}
	defer folder.Close()
	for _, name := range []string{setup.Root, setup.Upper, setup.Work} {
		if err := makeFolder(folder, name); err != nil {
			return err
		}
	}
	if w.Copied {
		if err := copyImage(ctx, image.Layers, folder, setup.Root); err != nil {
			return err
		}
		says.Layers = nil
	}
	return says.Write(folder)
}

// makeFolder makes a folder that becomes visible as the root of a task.
func makeFolder(at *os.Root, name string) error {
	if err := at.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return at.Chmod(name, 0o755) // regardless of the umask
}
