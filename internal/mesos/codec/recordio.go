package codec

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// lengthDigitsMax bounds the line that tells a record's length: no length of 64 bits has more digits.
const lengthDigitsMax = 20

// WriteRecord writes a record with one Write, which a flushed HTTP response turns into one chunk: there are clients that
// expect each record in a chunk of its own.
func WriteRecord(w io.Writer, payload []byte) error {
	record := make([]byte, 0, len(payload)+lengthDigitsMax+1)
	record = strconv.AppendInt(record, int64(len(payload)), 10)
	record = append(record, '\n')
	_, err := w.Write(append(record, payload...))
	return err
}

// RecordReader reads records. It is for one goroutine.
type RecordReader struct {
	in  *bufio.Reader
	max int
}

// NewRecordReader makes a reader that refuses a record of more than max bytes.
func NewRecordReader(in io.Reader, maxBytes int) *RecordReader {
	return &RecordReader{in: bufio.NewReader(in), max: maxBytes}
}

// Next returns the next record's payload, which is the caller's. The error is io.EOF where the stream ends between two
// records, and io.ErrUnexpectedEOF where it ends within one. After an error the stream can't be read on.
func (r *RecordReader) Next() ([]byte, error) {
	length, err := r.length()
	if err != nil {
		return nil, err
	}
	// What a length claims is not allocated before it is there.
	var payload bytes.Buffer
	if _, err := io.CopyN(&payload, r.in, int64(length)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return payload.Bytes(), nil
}

func (r *RecordReader) length() (int, error) {
	length := 0
	for digits := 0; ; digits++ {
		c, err := r.in.ReadByte()
		switch {
		case err != nil && digits > 0 && errors.Is(err, io.EOF):
			return 0, io.ErrUnexpectedEOF
		case err != nil:
			return 0, err
		case c == '\n' && digits > 0:
			return length, nil
		case c < '0' || c > '9' || digits == lengthDigitsMax:
			return 0, errors.New("recordio: a record begins with its length in decimal digits and a newline")
		}
		if length = length*10 + int(c-'0'); length > r.max {
			return 0, fmt.Errorf("recordio: a record of more than %d bytes", r.max)
		}
	}
}
