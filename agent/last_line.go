package agent

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/tail"
)

// lastLineBytesMax is how many bytes of an executor's last line are told.
const lastLineBytesMax = 512

// stderrSize returns how many bytes earlier runs of an executor have written to its stderr.
func stderrSize(folder beneath.Place) int64 {
	info, err := folder.Lstat("stderr")
	if err != nil {
		return 0
	}
	return info.Size()
}

// lastLine returns the last line that an executor wrote to its stderr from an offset on, or only the end of it if it is
// long; "" if there is none. The file belongs to the executor: it may be anything and hold anything.
func lastLine(folder beneath.Place, from int64) string {
	from = max(from, stderrSize(folder)-4*lastLineBytesMax)
	var said bytes.Buffer
	if tail.CopyFile(folder, &tail.File{Name: "stderr", Offset: from, To: &said}) != nil {
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
