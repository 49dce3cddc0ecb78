package show

import (
	"bytes"
	"encoding/json"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/internal/wire"
)

// JSON writes a message for programs: field names as in the .proto, with empty lists and zeros.
func JSON(w io.Writer, message proto.Message) error {
	data, err := wire.JSON(message)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// JSONLine writes a message as JSON on one line, for commands that write one after the other.
func JSONLine(w io.Writer, message proto.Message) error {
	data, err := wire.JSON(message)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, data); err != nil {
		return err
	}
	line.WriteByte('\n')
	_, err = w.Write(line.Bytes())
	return err
}

// Indented writes a value that is no message as JSON for programs.
func Indented(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
