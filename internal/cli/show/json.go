package show

import (
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
