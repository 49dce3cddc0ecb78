package tail

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/tenderhq/tender/agent/beneath"
)

// lastLineBytesMax is how many bytes of a last line are told.
const lastLineBytesMax = 512

// Size returns how many bytes a file in the folder has; 0: it is not there.
func Size(folder beneath.Place, name string) int64 {
	info, err := folder.Lstat(name)
	if err != nil {
		return 0
	}
	return info.Size()
}

// LastLine returns the last line that a file in the folder has from an offset on, or only the end of it if it is long;
// "" if there is none. The file may belong to a task: it may be anything and hold anything.
func LastLine(folder beneath.Place, name string, from int64) string {
	from = max(from, Size(folder, name)-4*lastLineBytesMax)
	var said bytes.Buffer
	if CopyFile(folder, &File{Name: name, Offset: from, To: &said}) != nil {
		return ""
	}
	text := strings.TrimRightFunc(strings.ToValidUTF8(said.String(), "?"), unicode.IsSpace)
	line := text[strings.LastIndexByte(text, '\n')+1:]
	line = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, line)
	if cut := len(line) - lastLineBytesMax; cut > 0 {
		line = "..." + strings.ToValidUTF8(line[cut:], "")
	}
	return strings.TrimSpace(line)
}
