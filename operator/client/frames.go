package client

import (
	"bytes"
	"encoding/json"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/internal/tree"
)

// frames reads the events of a watch without decoding their objects.
type frames interface {
	// next returns the next frame. Previous frames stay valid as long as more returned true before
	// each call.
	next() (metav1.WatchEvent, error)
	// more reports whether the next frame has been received completely.
	more() bool
}

type jsonFrames struct {
	in      *frameReader
	decoder *json.Decoder
	known   bool // the first event was a line of its own
}

func (f *jsonFrames) more() bool {
	unread := f.in.buf[f.in.begin:f.in.end]
	n := bytes.IndexByte(unread, '\n')
	if n < 0 || f.decoder != nil {
		return false
	}
	_, ok := f.cut(unread[:n+1]) // otherwise the decoder may have to read more
	return ok
}

// frames returns a reader of JSON events. Servers write each event without white space and on a
// line of its own, so it can be cut out without parsing. The first line in a different format and
// all lines after it go through a decoder.
func (jsonCodec) frames(r io.Reader) frames { return &jsonFrames{in: newFrameReader(r)} }

func (f *jsonFrames) next() (metav1.WatchEvent, error) {
	if f.decoder == nil {
		line, err := f.in.line()
		if event, ok := f.cut(line); ok {
			f.known = true
			return event, nil
		}
		if err != nil && len(bytes.TrimSpace(line)) == 0 {
			return metav1.WatchEvent{}, err
		}
		f.decoder = json.NewDecoder(io.MultiReader(bytes.NewReader(bytes.Clone(line)), f.in))
	}
	var frame struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	err := f.decoder.Decode(&frame)
	return metav1.WatchEvent{Type: frame.Type, Object: runtime.RawExtension{Raw: bytes.TrimSpace(frame.Object)}}, err
}

// cut splits a line that is one event in the usual format. An event that continues in the next line
// has more opening than closing braces. Braces in texts can hide that, so cut parses the first line
// and those whose braces are not balanced. A server that continues an event in the next line does
// so for all events.
func (f *jsonFrames) cut(line []byte) (metav1.WatchEvent, bool) {
	event, ok := cutEvent(line)
	ok = ok && (f.known && bytes.Count(line, []byte("{")) == bytes.Count(line, []byte("}")) || isWhole(line))
	return event, ok
}

// isWhole reports whether a line has a complete JSON object.
func isWhole(line []byte) bool {
	p := tree.Parser{Data: line}
	return p.Skip() == nil && p.At == len(line)-1
}

// cutEvent splits an event in the usual format: {"type":"ADDED","object":{…}} and a line end.
func cutEvent(line []byte) (metav1.WatchEvent, bool) {
	const before, between, after = `{"type":"`, `","object":{`, "}}\n"
	if !bytes.HasPrefix(line, []byte(before)) || !bytes.HasSuffix(line, []byte(after)) {
		return metav1.WatchEvent{}, false
	}
	rest := line[len(before):]
	n := bytes.IndexByte(rest, '"')
	if n < 0 || !bytes.HasPrefix(rest[n:], []byte(between)) {
		return metav1.WatchEvent{}, false
	}
	object := rest[n+len(between)-1 : len(rest)-len(after)+1]
	return metav1.WatchEvent{Type: eventType(rest[:n]), Object: runtime.RawExtension{Raw: object}}, true
}

// eventType returns the event type as a string, without an allocation for known types.
func eventType(name []byte) string {
	switch string(name) {
	case "ADDED":
		return "ADDED"
	case "MODIFIED":
		return "MODIFIED"
	case "DELETED":
		return "DELETED"
	case "BOOKMARK":
		return "BOOKMARK"
	}
	return string(name)
}

// frameReader reads frames that stay valid until it has to read more. Its buffer grows to the
// largest frame, and further while the stream always has more data, so that several decoders can
// work at the same time. After many small reads it replaces a large buffer by a small one, because
// most watches are idle most of the time.
type frameReader struct {
	from  io.Reader
	buf   []byte
	begin int // start of the unconsumed data
	end   int
	err   error
	small int  // consecutive reads that fit into a small buffer
	full  bool // the last read filled the buffer
}

const (
	smallBuffer = 4 << 10
	// largeBuffer is the size up to which the buffer grows to hold several frames.
	largeBuffer = 128 << 10
	// forgetAfter is the number of small reads after which a large buffer is replaced.
	forgetAfter = 256
)

func newFrameReader(r io.Reader) *frameReader { return &frameReader{from: r} }

// fill makes room if necessary and reads more data.
func (f *frameReader) fill() error {
	if f.err != nil {
		return f.err
	}
	switch {
	case f.begin == f.end && len(f.buf) > smallBuffer && f.small > forgetAfter:
		f.buf, f.begin, f.end, f.small = make([]byte, smallBuffer), 0, 0, 0
	case f.begin == f.end:
		f.begin, f.end = 0, 0
	}
	if f.end == len(f.buf) || f.full && len(f.buf) < largeBuffer {
		if f.begin > len(f.buf)/2 && !f.full {
			f.end = copy(f.buf, f.buf[f.begin:f.end])
		} else {
			larger := make([]byte, max(smallBuffer, 2*len(f.buf)))
			f.end = copy(larger, f.buf[f.begin:f.end])
			f.buf = larger
		}
		f.begin = 0
	}
	n, err := f.from.Read(f.buf[f.end:])
	f.full = n == len(f.buf)-f.end && len(f.buf) < largeBuffer
	f.end += n
	f.err = err
	if f.small++; n > smallBuffer {
		f.small = 0
	}
	if n > 0 {
		return nil
	}
	return err
}

func (f *frameReader) take(n int) []byte {
	piece := f.buf[f.begin : f.begin+n]
	f.begin += n
	if n > smallBuffer {
		f.small = 0
	}
	return piece
}

// next returns the next n bytes. At the end of the stream, it returns io.EOF between frames and
// io.ErrUnexpectedEOF within a frame.
func (f *frameReader) next(n int) ([]byte, error) {
	for f.end-f.begin < n {
		if err := f.fill(); err != nil {
			if err == io.EOF && f.end > f.begin {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return f.take(n), nil
}

// line returns the next line with its line end. With an error, it returns the data before the
// error.
func (f *frameReader) line() ([]byte, error) {
	for searched := 0; ; {
		if n := bytes.IndexByte(f.buf[f.begin+searched:f.end], '\n'); n >= 0 {
			return f.take(searched + n + 1), nil
		}
		searched = f.end - f.begin
		if err := f.fill(); err != nil {
			return f.take(searched), err
		}
	}
}

// Read returns the remaining data.
func (f *frameReader) Read(p []byte) (int, error) {
	if f.begin == f.end {
		if err := f.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.buf[f.begin:f.end])
	f.begin += n
	return n, nil
}
