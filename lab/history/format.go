package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/klauspost/compress/s2"
)

const (
	fileTag  = "KELSONHI"
	frameTag = "KHFR"
	// formatVersion is the version that a Writer writes. Readers also accept version 1, which has
	// no start record.
	formatVersion = 2

	headerSize = len(fileTag) + 4
	frameHead  = len(frameTag) + 8
	// frameSize is the size of records at which a Writer ends a frame.
	frameSize = 64 << 10
	// maxFrame is larger than any frame: an object has at most a few MiB.
	maxFrame = 1 << 28
	// maxChain is the maximum number of versions that must be decoded to read one.
	maxChain = 16
)

const (
	recordResource = 1
	recordObject   = 2
	recordVersion  = 3
	recordDeletion = 4
	recordStart    = 5
)

// ErrDamaged means that a file is not a history, or that a part of it has changed since it was
// written.
var ErrDamaged = errors.New("damaged history")

var checksums = crc32.MakeTable(crc32.Castagnoli)

func sum(b []byte) uint32 { return crc32.Checksum(b, checksums) }

// Resource is a kind of object in a history.
type Resource struct {
	Group      string   `json:"group,omitempty"`
	Version    string   `json:"version"`
	Resource   string   `json:"resource"` // plural, as in URLs
	Kind       string   `json:"kind"`
	Singular   string   `json:"singular,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	Namespaced bool     `json:"namespaced,omitempty"`
}

// Name returns the name of the resource with its group: deployments.apps, or pods.
func (r Resource) Name() string {
	if r.Group == "" {
		return r.Resource
	}
	return r.Resource + "." + r.Group
}

// Key identifies an object.
type Key struct {
	Resource  string // as Resource.Name
	Namespace string // empty for objects without one
	Name      string
}

func (k Key) String() string {
	if k.Namespace == "" {
		return k.Resource + "/" + k.Name
	}
	return k.Resource + "/" + k.Namespace + "/" + k.Name
}

// Version is one version of an object.
type Version struct {
	Key      Key
	Revision uint64
	// Time is the time at which the version was observed. Times in a history never decrease: if the
	// clock went back, a version has the time of the version before it.
	Time time.Time
	// Deleted means that the object was deleted at this revision.
	Deleted bool
}

func decompress(base, content []byte) ([]byte, error) {
	if dict := dictionary(base); dict != nil {
		return dict.Decode(nil, content)
	}
	return s2.Decode(nil, content)
}

// dictionary returns nil if base is too short for one. Only its last 64 KiB are used.
func dictionary(base []byte) *s2.Dict { return s2.MakeDict(base, nil) }

// decoder reads varints from a frame. After the first error, it returns zeros.
type decoder struct {
	rest []byte
	at   int64 // offset of rest in the file
	err  error
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail("invalid number")
		return 0
	}
	d.skip(n)
	return v
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail("length beyond the end of the frame")
		return nil
	}
	b := d.rest[:n]
	d.skip(int(n))
	return b
}

func (d *decoder) skip(n int) {
	d.rest = d.rest[n:]
	d.at += int64(n)
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s at offset %d", ErrDamaged, what, d.at)
	}
	d.rest = nil
}
