package agent

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/tail"
)

// lastLineBytesMax of an executor's last line are told.
const lastLineBytesMax = 512

// stderrSize is how much an executor has written to its stderr until now, in earlier runs.
func stderrSize(folder beneath.Place) int64 {
	info, err := folder.Lstat("stderr")
	if err != nil {
		return 0
	}
	return info.Size()
}

// lastLine is the last line that an executor wrote to its stderr from an offset on, its end if it is long; "" when
// there is none. The file is the executor's: it may be anything, and what it holds too.
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
