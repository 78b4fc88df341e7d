package client

import (
	"bytes"
	"encoding/json"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// frames are the events of a watch, of which the objects are still encoded.
type frames interface {
	// next is the next frame. Those before it stay valid if there was more.
	next() (metav1.WatchEvent, error)
	// more says that the next frame is here already, as a whole.
	more() bool
}

type jsonFrames struct {
	in      *frameReader
	decoder *json.Decoder
}

func (f *jsonFrames) more() bool {
	here := f.in.buf[f.in.begin:f.in.end]
	n := bytes.IndexByte(here, '\n')
	if n < 0 || f.decoder != nil {
		return false
	}
	_, ok := cutEvent(here[:n+1]) // else the decoder may have to read on
	return ok
}

// frames: servers write an event without white space, on a line of its own, and what has no line end within it can be cut out
// without parsing. The first line that is otherwise, and all after it, goes through a decoder.
func (jsonCodec) frames(r io.Reader) frames { return &jsonFrames{in: newFrameReader(r)} }

func (f *jsonFrames) next() (metav1.WatchEvent, error) {
	if f.decoder == nil {
		line, err := f.in.line()
		if event, ok := cutEvent(line); ok {
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

// cutEvent takes an event apart that is written the usual way: {"type":"ADDED","object":{…}} and a line end.
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

// eventType is the text of a type of event, without making a new string for those that there are.
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

// frameReader reads pieces that are valid until it has to read on for the next. Its buffer grows to the largest of them, and further while
// there is always more to read, so that there are pieces for several decoders. It is let go of when what comes has been little for a while: a
// watch is mostly idle.
type frameReader struct {
	from  io.Reader
	buf   []byte
	begin int // of what has been read and not given out
	end   int
	err   error
	small int  // reads in a row that would have fit into a small buffer
	full  bool // the last read took all the room there was
}

const (
	smallBuffer = 4 << 10
	// largeBuffer is how far it grows to have several pieces.
	largeBuffer = 128 << 10
	// forgetAfter so many small reads a large buffer is given back.
	forgetAfter = 256
)

func newFrameReader(r io.Reader) *frameReader { return &frameReader{from: r} }

// fill reads more, and makes room for it first.
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

// next is the next n bytes. At the end of the stream the error is io.EOF between pieces and io.ErrUnexpectedEOF within one.
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

// line is the next line, with its end. With an error it is what came before that.
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

// Read gives out what is left.
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
