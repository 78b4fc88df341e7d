package store

import (
	"bytes"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The limits of a write. A store never accepts what a reader of its state would refuse: Commit
// checks each limit before it acknowledges a write, so the limits are the same for all backends,
// and are below those of the files and streams that hold the state.
const (
	// MaxObject is the maximum size of an object in bytes: its JSON, its key, and what a request to
	// etcd needs in addition. It is the limit of requests that etcd has by default
	// (--max-request-bytes), and so the limit of Kubernetes.
	MaxObject = 3 << 19
	// MaxDepth is how many objects and lists may be open at one place of an object's JSON. The
	// decoders that read it accept 10,000; lists, events and reviews nest an object in others.
	MaxDepth = 9_900
	// MaxUnit is the maximum size of all objects of one Commit, and of the writes that a Backend
	// gets in one Append. It is far below the limits of what a Backend can store and read.
	MaxUnit = 64 << 20

	// requestBytes is more than the size of a request to etcd without the key and the object.
	requestBytes = 512
)

var (
	// ErrTooLarge means that an object exceeds MaxObject, or a Commit MaxUnit. It is an
	// ErrNotWritten. Its text and its Status are those with which kube-apiserver reports that etcd
	// refused an object.
	ErrTooLarge error = tooLarge{}
	// ErrTooDeep means that an object exceeds MaxDepth. It is an ErrNotWritten.
	ErrTooDeep = fmt.Errorf("the object is nested too deeply: %w", ErrNotWritten)
)

type tooLarge struct{}

func (tooLarge) Error() string { return "etcdserver: request is too large" }

func (tooLarge) Unwrap() error { return ErrNotWritten }

// Status makes servers respond like kube-apiserver: with 500, and without a reason.
func (e tooLarge) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: e.Error()}
}

// CheckSize returns ErrTooLarge or ErrTooDeep if a store cannot have an object with this JSON. For
// almost all objects it takes nanoseconds.
func CheckSize(key Key, data []byte) error {
	switch {
	case size(key, data) > MaxObject:
		return ErrTooLarge
	case deep(data):
		return ErrTooDeep
	}
	return nil
}

// size returns the size of an object as MaxObject limits it.
func size(key Key, data []byte) int {
	return len(data) + len(key.Resource) + len(key.Namespace) + len(key.Name) + requestBytes
}

// deep reports whether JSON exceeds MaxDepth.
func deep(data []byte) bool {
	if len(data) < 2*MaxDepth || bytes.Count(data, []byte{'{'})+bytes.Count(data, []byte{'['}) <= MaxDepth {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// checkSizes checks the objects of one Commit. Objects that exceed MaxObject exist in states of
// earlier versions, and in an etcd with a higher limit. Such an object may be written if it does
// not grow, or to mark it as being deleted.
func (s *Store) checkSizes(ops []Op, drafts []draft) (total int, err error) {
	for i := range ops {
		op := &ops[i]
		if op.Data == nil {
			continue
		}
		if err := CheckSize(op.Key, op.Data); err != nil && !s.reduces(op, &drafts[i], err) {
			return 0, err
		}
		total += size(op.Key, op.Data)
	}
	if total > MaxUnit && len(ops) > 1 {
		return 0, ErrTooLarge
	}
	return total, nil
}

// reduces reports whether an op that exceeds a limit may replace the present object, which exceeds
// it too.
func (s *Store) reduces(op *Op, d *draft, limit error) bool {
	current, _ := s.snapshot().view.objects.Get(d.path)
	if current == nil {
		return false
	}
	// the resourceVersion that the store has added to the present object does not count
	present := current.Data[:max(0, len(current.Data)-len(`"resourceVersion":"18446744073709551615",`))]
	if limit == ErrTooDeep {
		present = current.Data
	}
	if CheckSize(current.Key, present) != limit {
		return false
	}
	deletes := current.Head.DeletionTimestamp.IsZero() && !d.head.DeletionTimestamp.IsZero()
	return deletes || len(op.Data) <= len(current.Data)
}
