package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// looks are both themes on a wide and on a narrow screen.
var looks = []struct {
	scheme string
	width  int64
}{{"light", 1280}, {"dark", 1280}, {"dark", 360}, {"light", 360}}

// between are widths between those, at which nothing but the width is looked at.
var between = []int64{480, 560, 640, 760, 1024}

const (
	// sketchPixels is how many pixels of the screen are one of a sketch, in which no letter is left: so neither fonts nor
	// times matter.
	sketchPixels = 40
	// sketchShrunk is how many of them are one already when the browser draws. In much smaller letters fonts matter again.
	sketchShrunk = 4
	// apartMax is how far apart two sketches of the same view may be. Two runs were 0.9 apart at most, and 1.7 with another
	// font; a view without its style was 4.6 to 60.
	apartMax = 3.5
)

// lookAt looks at the view that is shown in each way. It returns what is wrong with it, and where it does not look as it
// did when a person looked at it.
func (w *window) lookAt(name string) (wrong []string) {
	w.t.Helper()
	file := filepath.Join("testdata", "page", regexp.MustCompile(`\W+`).ReplaceAllString("view"+name, "-")+".png")
	kept, sheet := w.kept(file), image.NewNRGBA(image.Rectangle{})
	overTime := strings.HasPrefix(name, "/shares") // its charts begin with the cluster, so a slow machine draws others
	for _, look := range looks {
		w.look(look.scheme, look.width)
		sketch, left := w.sketch(), sheet.Bounds().Dx()
		found := append(evaluated[[]string](w, "%s", checks), evaluated[[]string](w, "%s", fits)...)
		if far := apart(kept, sketch, left); far > apartMax && !*images && !overTime {
			found = append(found, fmt.Sprintf("it looks %.1f apart from %s at %d, and %.1f is allowed; changed on purpose? make test-ui IMAGES=1, then look at it", far, file, left, apartMax))
		}
		for _, one := range found {
			wrong = append(wrong, fmt.Sprintf("%s, %s, %d wide: %s", name, look.scheme, look.width, one))
		}
		sheet = beside(sheet, sketch)
	}
	for _, width := range between {
		w.do(chromedp.EmulateViewport(width, 900))
		for _, one := range evaluated[[]string](w, "%s", fits) {
			wrong = append(wrong, fmt.Sprintf("%s, %d wide: %s", name, width, one))
		}
	}
	if *images && !overTime && apart(kept, sheet, 0) > apartMax/2 {
		var text bytes.Buffer
		if err := errors.Join(png.Encode(&text, sheet), os.WriteFile(file, text.Bytes(), 0o644)); err != nil {
			w.t.Fatal(err)
		}
	}
	return wrong
}

// finds checks that a view that a statement has broken is found to be wrong in these words.
func (w *window) finds(name, breaks, words string) {
	w.t.Helper()
	w.goTo(name)
	w.does("%s", breaks)
	wrong := w.lookAt(name)
	for _, look := range looks {
		place := fmt.Sprintf("%s, %s, %d wide: ", name, look.scheme, look.width)
		if !slices.ContainsFunc(wrong, func(one string) bool { return strings.HasPrefix(one, place) && strings.Contains(one, words) }) {
			w.t.Errorf("%sit is not found that %q, after %s; found is %q", place, words, breaks, wrong)
		}
	}
}

// kept returns the sketches of a view that are kept; without any, a picture that is far from all.
func (w *window) kept(file string) image.Image {
	w.t.Helper()
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return image.NewNRGBA(image.Rectangle{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	kept, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	return kept
}

// sketch returns the mean colours of what is shown.
func (w *window) sketch() *image.NRGBA {
	w.t.Helper()
	size := evaluated[[]float64](w, "scrollTo(0, 0), [innerWidth, innerHeight]")
	shot, err := chromedp.Call(w.ctx, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{
		Clip: &cdppage.Viewport{Width: size[0], Height: size[1], Scale: 1.0 / sketchShrunk},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	shown, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		w.t.Fatal(err)
	}
	const side = sketchPixels / sketchShrunk
	sketch := image.NewNRGBA(image.Rect(0, 0, shown.Bounds().Dx()/side, shown.Bounds().Dy()/side))
	for y := range sketch.Bounds().Dy() {
		for x := range sketch.Bounds().Dx() {
			var sum [3]uint32
			for i := range side * side {
				r, g, b, _ := shown.At(x*side+i%side, y*side+i/side).RGBA()
				sum = [3]uint32{sum[0] + r>>8, sum[1] + g>>8, sum[2] + b>>8}
			}
			sketch.SetNRGBA(x, y, color.NRGBA{uint8(sum[0] / side / side), uint8(sum[1] / side / side), uint8(sum[2] / side / side), 255})
		}
	}
	return sketch
}

// beside returns two pictures as one.
func beside(a, b *image.NRGBA) *image.NRGBA {
	both := image.NewNRGBA(image.Rect(0, 0, a.Bounds().Dx()+b.Bounds().Dx(), max(a.Bounds().Dy(), b.Bounds().Dy())))
	draw.Draw(both, a.Bounds(), a, image.Point{}, draw.Src)
	draw.Draw(both, b.Bounds().Add(image.Pt(a.Bounds().Dx(), 0)), b, image.Point{}, draw.Src)
	return both
}

// apart returns by how much the colours of a sketch differ from those of the kept picture from left on, on average, where
// 255 is black to white. What stands in one that lies beside it in the other does not differ: in another font it is there.
func apart(kept image.Image, sketch *image.NRGBA, left int) float64 {
	size := sketch.Bounds().Size()
	if kept.Bounds().Dx() < left+size.X || kept.Bounds().Dy() < size.Y {
		return 255
	}
	here := func(x, y int) color.NRGBA { return color.NRGBAModel.Convert(kept.At(left+x, y)).(color.NRGBA) }
	sum := 0
	for y := range size.Y {
		for x := range size.X {
			there, back := 255, 255
			for i := range 9 {
				if near := image.Pt(x+i%3-1, y+i/3-1); near.In(sketch.Bounds()) {
					there = min(there, differ(sketch.NRGBAAt(x, y), here(near.X, near.Y)))
					back = min(back, differ(here(x, y), sketch.NRGBAAt(near.X, near.Y)))
				}
			}
			sum += max(there, back)
		}
	}
	return float64(sum) / float64(size.X*size.Y)
}

// differ returns by how much two colours differ.
func differ(a, b color.NRGBA) int {
	most := 0
	for _, d := range []int{int(a.R) - int(b.R), int(a.G) - int(b.G), int(a.B) - int(b.B)} {
		most = max(most, d, -d)
	}
	return most
}
