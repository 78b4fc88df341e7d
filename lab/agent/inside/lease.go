package inside

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// leases holds the Leases of the operator, as the last responses showed them, by path.
//
// A leader renews its Lease every two seconds of virtual time. While the kelson process allows it,
// because no other client uses the Leases, renewals are answered here: sent to the control plane,
// they would be most of the requests of a run. The control plane then has an older renewTime and
// the same resourceVersion, so later writes have no conflict.
type leases struct {
	mu     sync.Mutex
	own    bool // no other client uses them
	byPath map[string]*lease
}

// lease is the last response of the control plane for a Lease.
type lease struct {
	object map[string]interface{}
	header http.Header
	rest   string // of the update whose response it is; "" if it is the response to another request
}

func (l *leases) allow(own bool) {
	l.mu.Lock()
	l.own = own
	l.mu.Unlock()
}

// answer returns the response to a request that renews or reads a Lease of the operator. It
// returns nil if the control plane must answer.
func (l *leases) answer(m *Message, path, query string) *http.Response {
	if strings.Contains(query, "dryRun") || m.Method != http.MethodGet && m.Method != http.MethodPut {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.byPath[path]
	if !l.own || known == nil {
		return nil
	}
	object := known.object
	if m.Method == http.MethodPut {
		u, err := parseUpdate(m.Body)
		version := textIn(object, "metadata", "resourceVersion")
		if err != nil || known.rest == "" || u.rest != known.rest || u.version != version {
			return nil
		}
		spec, _ := object["spec"].(map[string]interface{})
		spec["renewTime"] = u.renewed
	}
	body, err := json.Marshal(object)
	if err != nil {
		return nil
	}
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: known.header.Clone(), ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}
}

// linger waits for half of the time until the deadline of a request. A leader that gets late
// responses renews its Lease less often, in a run of hours.
func linger(ctx context.Context) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	timer := time.NewTimer(time.Until(deadline) / 2)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// follow records the Lease in the response to a request that the control plane has answered.
func (l *leases) follow(m *Message, path string, resp *http.Response) {
	body := &leaseBody{ReadCloser: resp.Body, leases: l, path: path}
	switch {
	case resp.StatusCode >= 300 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json"):
		l.set(path, nil)
		return
	case m.Method == http.MethodPut:
		u, err := parseUpdate(m.Body)
		if err != nil {
			l.set(path, nil)
			return
		}
		body.rest = u.rest
	}
	body.header = resp.Header.Clone()
	resp.Body = body
}

func (l *leases) set(path string, known *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known == nil {
		delete(l.byPath, path)
	} else {
		l.byPath[path] = known
	}
}

// leaseBody records the Lease in the body of a response.
type leaseBody struct {
	io.ReadCloser
	leases *leases
	path   string
	header http.Header
	rest   string
	data   []byte
}

// Read implements io.Reader.
func (b *leaseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.data = append(b.data, p[:n]...)
	if err != io.EOF {
		return n, err
	}
	known := &lease{header: b.header, rest: b.rest}
	if json.Unmarshal(b.data, &known.object) != nil || textIn(known.object, "spec", "renewTime") == "" {
		known = nil // another object, such as the Status of a deletion
	}
	b.leases.set(b.path, known)
	return n, err
}

// isLease reports whether a path is that of a Lease.
func isLease(path string) bool {
	const prefix = "/apis/coordination.k8s.io/v1/namespaces/"
	parts := strings.Split(strings.TrimPrefix(path, prefix), "/")
	return strings.HasPrefix(path, prefix) && len(parts) == 3 && parts[1] == "leases" && parts[2] != ""
}

func textIn(object map[string]interface{}, parent, field string) string {
	in, _ := object[parent].(map[string]interface{})
	text, _ := in[field].(string)
	return text
}

// update is the body of an update of a Lease.
type update struct {
	version string // metadata.resourceVersion
	renewed string // spec.renewTime
	rest    string // all other fields that the client sets; two equal ones have equal texts
}

var errUpdate = errors.New("malformed update of a Lease")

// parseUpdate parses the body of an update in JSON or Kubernetes' protobuf.
func parseUpdate(body []byte) (u update, err error) {
	const magic = "k8s\x00"
	if !bytes.HasPrefix(body, []byte(magic)) {
		return parseJSONUpdate(body)
	}
	// runtime.Unknown has the object in field 2.
	var object []byte
	if err := eachField(body[len(magic):], func(field uint64, value, _ []byte) error {
		if field == 2 {
			object = value
		}
		return nil
	}); err != nil || object == nil {
		return u, errUpdate
	}
	rest := []byte{'p'}
	err = eachField(object, func(field uint64, value, _ []byte) error {
		return eachField(value, func(inner uint64, value, whole []byte) error {
			switch {
			case field == 1 && inner == 6: // metadata.resourceVersion
				u.version = string(value)
			case field == 1 && inner == 17: // metadata.managedFields
			case field == 2 && inner == 4: // spec.renewTime
				var err error
				u.renewed, err = parseTimestamp(value)
				return err
			default:
				rest = append(append(rest, byte(field)), whole...)
			}
			return nil
		})
	})
	u.rest = string(rest)
	return u, err
}

func parseJSONUpdate(body []byte) (u update, err error) {
	var object map[string]interface{}
	if err := json.Unmarshal(body, &object); err != nil {
		return u, err
	}
	u.version, u.renewed = textIn(object, "metadata", "resourceVersion"), textIn(object, "spec", "renewTime")
	for _, path := range [][2]string{
		{"metadata", "resourceVersion"}, {"metadata", "managedFields"}, {"spec", "renewTime"},
	} {
		if in, ok := object[path[0]].(map[string]interface{}); ok {
			delete(in, path[1])
		}
	}
	rest, err := json.Marshal(object)
	u.rest = string(rest)
	return u, err
}

// eachField calls f with the fields of a protobuf message. For a field with a length, value is its
// content; whole is the whole encoded field.
func eachField(message []byte, f func(field uint64, value, whole []byte) error) error {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return errUpdate
		}
		size := n
		var value []byte
		switch tag & 7 {
		case 0:
			_, n := binary.Uvarint(message[size:])
			if n <= 0 {
				return errUpdate
			}
			value = message[size : size+n]
			size += n
		case 2:
			length, n := binary.Uvarint(message[size:])
			if n <= 0 || length > uint64(len(message)-size-n) {
				return errUpdate
			}
			value = message[size+n : size+n+int(length)]
			size += n + int(length)
		default: // Kubernetes' types have no others
			return errUpdate
		}
		if err := f(tag>>3, value, message[:size]); err != nil {
			return err
		}
		message = message[size:]
	}
	return nil
}

// parseTimestamp returns the JSON form of a MicroTime in protobuf.
func parseTimestamp(message []byte) (string, error) {
	var seconds, nanos uint64
	err := eachField(message, func(field uint64, value, _ []byte) error {
		n, _ := binary.Uvarint(value)
		switch field {
		case 1:
			seconds = n
		case 2:
			nanos = n
		}
		return nil
	})
	return time.Unix(int64(seconds), int64(nanos)).UTC().Format("2006-01-02T15:04:05.000000Z07:00"), err
}
