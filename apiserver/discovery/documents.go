package discovery

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/resource"
)

// documents holds the documents of one set of the registry and of other servers.
type documents struct {
	set    *resource.Set
	others *Others
	groups []group

	mu      sync.Mutex
	encoded map[documentKey]*encoded
}

// documentKey names one encoding of one document.
type documentKey struct {
	path      string
	aggregate string // version of apidiscovery.k8s.io; empty for legacy
	mediaType string
	pretty    bool
}

// encoded is an encoded document.
type encoded struct {
	data []byte
	etag string // aggregated documents only
}

func newDocuments(set *resource.Set, others *Others, priorities PriorityFunc) *documents {
	d := &documents{set: set, others: others, encoded: map[documentKey]*encoded{}}
	if others == nil {
		others = &Others{}
	}
	d.groups = groupsOf(set, *others, priorities)
	return d
}

// get returns a document, or nil if the path has none. It encodes a document at the first call and
// caches it.
func (d *documents) get(h *Handler, key documentKey, s runtime.Serializer) (*encoded, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, ok := d.encoded[key]; ok {
		return e, nil
	}
	obj, err := d.document(h, key)
	if err != nil || obj == nil {
		return nil, err
	}
	e, err := encode(obj, s)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", key.path, err)
	}
	if key.aggregate != "" {
		e.etag = fmt.Sprintf("%X", sha256.Sum256(e.data))
	}
	d.encoded[key] = e
	return e, nil
}

func encode(obj runtime.Object, s runtime.Encoder) (*encoded, error) {
	var buf bytes.Buffer
	if err := s.Encode(obj, &buf); err != nil {
		return nil, err
	}
	return &encoded{data: buf.Bytes()}, nil
}

func (d *documents) document(h *Handler, key documentKey) (runtime.Object, error) {
	parts := strings.Split(strings.Trim(key.path, "/"), "/")
	if key.aggregate != "" {
		return h.scheme.ConvertToVersion(aggregated(d.groups, parts[0] == "api"),
			schema.GroupVersion{Group: "apidiscovery.k8s.io", Version: key.aggregate})
	}
	switch {
	case parts[0] == "api" && len(parts) == 2:
		return d.version("", parts[1]), nil
	case parts[0] == "apis" && len(parts) == 1:
		return groupList(d.groups), nil
	case parts[0] == "apis" && len(parts) == 2:
		if g, ok := d.group(parts[1]); ok {
			out := groupDocument(g, true)
			return &out, nil
		}
	case parts[0] == "apis" && len(parts) == 3 && parts[1] != "":
		return d.version(parts[1], parts[2]), nil
	}
	return nil, nil
}

func (d *documents) group(name string) (group, bool) {
	for _, g := range d.groups {
		if g.name == name && name != "" {
			return g, true
		}
	}
	return group{}, false
}

func (d *documents) version(groupName, version string) runtime.Object {
	for _, g := range d.groups {
		for _, v := range g.versions {
			if g.name == groupName && v.name == version && v.other == nil {
				return resourceList(d.set, g, v)
			}
		}
	}
	return nil
}
