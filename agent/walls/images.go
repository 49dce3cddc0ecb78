package walls

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/agent/walls/spaces"
)

// Images is the ability to run tasks in images.
const Images = "images"

// images says how tasks run in images here.
type images struct {
	not    string // why they do not, as a part of a sentence; "": they do
	copied bool   // each has a copy: the kernel can't lay layers over one another here
}

// tryImages finds that out for an agent with this folder.
func tryImages(folder string, config Config, tree cell.Tree) images {
	switch {
	case config.Isolation == Without:
		return images{not: "it was started with --isolation none"}
	case !tree.Makes:
		return images{not: tree.Lacks}
	case os.Geteuid() != 0:
		return images{not: fmt.Sprintf("only an agent of root makes them a root of their own; this one runs as user %d", os.Geteuid())}
	}
	if !config.CopyImages && tryImage(folder, true) == nil {
		return images{}
	}
	if err := tryImage(folder, false); err != nil {
		return images{not: err.Error()}
	}
	return images{copied: true}
}

// tryImage says why a task can't have a root of its own, laid over the layers of an image or a copy of it.
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

// NoImages says why tasks do not run in images, as a part of a sentence; "": they do.
func (c *Cells) NoImages() string {
	if c == nil {
		return "it starts no processes of its own"
	}
	return c.images.not
}

// CopyImages says that each task has a copy of its image.
func (c *Cells) CopyImages() bool { return c != nil && c.images.copied }
