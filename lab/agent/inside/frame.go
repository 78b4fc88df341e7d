package inside

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Kind is the type of a frame.
type Kind byte

// The kinds of frames. The comment says which side sends a frame: K is the kelson process, O the
// operator's process.
const (
	// Run ends a batch of K. See the package's documentation.
	Run Kind = 1 + iota
	// Idle ends a batch of O. Its content is the time of O's clock, and a time before which no
	// timer of O fires; 0 if that is not known.
	Idle
	// Request is a request to the control plane, by O. Call is one that K answers while O waits,
	// in real time. Both contain an encoded Message.
	Request
	Call
	// Cancel means that O no longer waits for the response to a request.
	Cancel
	// Response is the head of the response to a request, by K: an encoded Message. Data and End
	// follow.
	Response
	// Failed means that there is no response to a request, by K. Its content is the error.
	Failed
	// Data is a part of a response's body, by K, or of a connection, by either side.
	Data
	// End ends a response's body or one direction of a connection. Its content is an error, which
	// is empty at the end of the data.
	End
	// Dial opens a connection to a listener of O, by K. Its content is the port.
	Dial
	// External reports that O tried to connect to an address outside of the cluster, or to start a
	// program. Its content is the address or the program. Its ID is Refused or Allowed. With the ID
	// Waits, it reports that a goroutine has waited long for a lock, and has its stack.
	External
	// Outside is a request to a service outside of the cluster, by O. It has an encoded Message,
	// whose Target is the whole URL.
	Outside
)

// The IDs of External.
const (
	Refused = iota // the attempt failed
	Allowed        // it was made, as AllowVariable permits
	Waits
)

// Frame is a message of the protocol. ID identifies the request or connection to which it belongs.
type Frame struct {
	Kind    Kind
	ID      uint32
	Content []byte
}

// headerSize is the size of an encoded frame without its content.
const headerSize = 9

// maxContent bounds the content of a frame. Kubernetes' objects are smaller than 4 MiB, but a list
// may be large.
const maxContent = 1 << 30

// AppendFrame appends an encoded frame to a buffer.
func AppendFrame(to []byte, f Frame) []byte {
	var header [headerSize]byte
	header[0] = byte(f.Kind)
	binary.LittleEndian.PutUint32(header[1:], f.ID)
	binary.LittleEndian.PutUint32(header[5:], uint32(len(f.Content)))
	return append(append(to, header[:]...), f.Content...)
}

// NextFrame decodes the first frame in a buffer, and returns the number of its bytes; 0 means that
// the frame is not complete. The frame refers to the buffer.
func NextFrame(from []byte) (f Frame, size int, err error) {
	if len(from) < headerSize {
		return Frame{}, 0, nil
	}
	length := int(binary.LittleEndian.Uint32(from[5:]))
	if length > maxContent || from[0] == 0 || Kind(from[0]) > Outside {
		return Frame{}, 0, fmt.Errorf("malformed frame: kind %d with %d bytes", from[0], length)
	}
	if len(from) < headerSize+length {
		return Frame{}, 0, nil
	}
	return Frame{Kind: Kind(from[0]), ID: binary.LittleEndian.Uint32(from[1:]),
		Content: from[headerSize : headerSize+length]}, headerSize + length, nil
}

// Times are the content of a Run frame, in nanoseconds since 1970: the time at which O takes the
// frames of the batch, the time until which it runs in any case, and the time until which it may
// run. OwnLeases says that no other client uses the Leases of O. Process is the number of O among
// the processes of its run, from 1; it seeds O's random numbers.
type Times struct {
	Now, Floor, Until int64
	Process           int64
	OwnLeases         bool
}

// Append appends the encoded times to a buffer.
func (t Times) Append(to []byte) []byte {
	for _, v := range []int64{t.Now, t.Floor, t.Until, t.Process} {
		to = AppendTime(to, v)
	}
	if t.OwnLeases {
		return append(to, 1)
	}
	return append(to, 0)
}

// ParseTimes decodes the content of a Run frame.
func ParseTimes(content []byte) (t Times, err error) {
	if len(content) != 33 {
		return t, errors.New("malformed times")
	}
	for i, v := range []*int64{&t.Now, &t.Floor, &t.Until, &t.Process} {
		*v = int64(binary.LittleEndian.Uint64(content[8*i:]))
	}
	t.OwnLeases = content[32] == 1
	return t, nil
}

// AppendTime appends an encoded time to a buffer. The content of an Idle frame are two times.
func AppendTime(to []byte, t int64) []byte {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(t))
	return append(to, b[:]...)
}

// ParseIdle decodes the content of an Idle frame.
func ParseIdle(content []byte) (at, next int64, err error) {
	if len(content) != 16 {
		return 0, 0, errors.New("malformed times")
	}
	return int64(binary.LittleEndian.Uint64(content)), int64(binary.LittleEndian.Uint64(content[8:])), nil
}

// Message is the content of a Request, Call or Response frame.
type Message struct {
	// Method and Target belong to requests: Target is the path and the query.
	Method, Target string
	// Status belongs to responses.
	Status int
	// Header has the names and values of the header's fields, alternately.
	Header []string
	// Body is the body of a request.
	Body []byte
}

// Append appends the encoded message to a buffer.
func (m *Message) Append(to []byte) []byte {
	to = appendString(appendString(to, m.Method), m.Target)
	to = binary.AppendUvarint(to, uint64(m.Status))
	to = binary.AppendUvarint(to, uint64(len(m.Header)))
	for _, v := range m.Header {
		to = appendString(to, v)
	}
	return append(to, m.Body...)
}

func appendString(to []byte, s string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(s))), s...)
}

// ParseMessage decodes a message. Its body refers to the content.
func ParseMessage(content []byte) (*Message, error) {
	p := parser{rest: content}
	m := &Message{Method: p.text(), Target: p.text(), Status: int(p.number())}
	fields := p.number()
	if fields > uint64(len(content)) {
		return nil, errMessage
	}
	for i := uint64(0); i < fields; i++ {
		m.Header = append(m.Header, p.text())
	}
	m.Body = p.rest
	if p.failed || len(m.Header)%2 != 0 {
		return nil, errMessage
	}
	return m, nil
}

var errMessage = errors.New("malformed message")

type parser struct {
	rest   []byte
	failed bool
}

func (p *parser) number() uint64 {
	n, size := binary.Uvarint(p.rest)
	if size <= 0 {
		p.failed = true
		return 0
	}
	p.rest = p.rest[size:]
	return n
}

func (p *parser) text() string {
	n := p.number()
	if n > uint64(len(p.rest)) {
		p.failed = true
		return ""
	}
	s := string(p.rest[:n])
	p.rest = p.rest[n:]
	return s
}
