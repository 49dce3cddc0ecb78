package walls

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/agent/walls/spaces"
	"github.com/tenderhq/tender/internal/datafolder"
)

// Images is the name of the ability to run tasks in images (see [Found]).
const Images = "images"

// images says whether and how tasks run in images here.
type images struct {
	not    string // why tasks do not run in images, as a part of a sentence; "": they do
	copied bool   // each task has a copy of its image, because the kernel can't mount layers over one another here
}

// tryImages finds out how tasks of an agent with this folder can run in images.
func tryImages(folder string, config Config, tree cell.Tree) images {
	switch {
	case config.Isolation == Without:
		return images{not: "it was started with --isolation none"}
	case !tree.Makes:
		return images{not: tree.Lacks}
	case os.Geteuid() != 0:
		return images{not: fmt.Sprintf("only an agent of root makes them a root of their own; this one runs as user %d", os.Geteuid())}
	}
	if !config.CopyImages {
		// On a full disk nothing can be tried. Then the agent has what nearly all machines have; it launches nothing there.
		if err := tryImage(folder, true); err == nil || datafolder.IsDiskFull(err) {
			return images{}
		}
	}
	if err := tryImage(folder, false); err != nil {
		return images{not: err.Error()}
	}
	return images{copied: true}
}

// tryImage returns why a task can't have an image as its root, or nil. laid says that the layers of the image are to be
// mounted over one another, and not copied.
func tryImage(folder string, laid bool) (err error) {
	own, err := makeTrial(folder)
	if err != nil {
		return err
	}
	defer func() {
		if left := os.RemoveAll(own); err == nil {
			err = left
		}
	}()
	for _, name := range []string{"root", "upper", "work", "layer"} {
		if err := os.Mkdir(filepath.Join(own, name), 0o755); err != nil {
			return err
		}
	}
	root := &spaces.Root{Folder: own, Begin: "/"}
	if laid {
		root.Layers = []string{filepath.Join(own, "layer")}
	}
	return spaces.Try(spaces.View{Root: root})
}

// NoImages returns why tasks do not run in images, as a part of a sentence; "" if they do.
func (c *Cells) NoImages() string {
	if c == nil {
		return "it starts no processes of its own"
	}
	return c.images.not
}

// CopyImages reports whether each task has a copy of its image.
func (c *Cells) CopyImages() bool { return c != nil && c.images.copied }
