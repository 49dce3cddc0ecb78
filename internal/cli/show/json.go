package show

import (
	"bytes"
	"encoding/json"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/internal/wire"
)

// JSON writes a message as programs read it: names as in the .proto, empty lists and zeros written out.
func JSON(w io.Writer, message proto.Message) error {
	data, err := wire.JSON(message)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// JSONLine writes the same in one line: one of many that come by and by.
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
