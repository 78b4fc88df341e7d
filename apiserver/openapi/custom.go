package openapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// part holds the documents of a group version of custom kinds. Each is built on first use.
type part struct {
	hash    string
	v3JSON  func() (*document, error)
	v3Proto func() (*document, error)
	v2      func() (*fragment, error)
}

// fragment is a piece of the v2 document: members of three JSON objects, and the same as protobuf.
type fragment struct {
	paths, definitions, parameters []byte
	proto                          func() ([]byte, error)
}

// refresh returns the parts of custom kinds, keeping those whose hash is still the same.
func (h *Handler) refresh(hashes map[schema.GroupVersion]string) map[schema.GroupVersion]*part {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := make(map[schema.GroupVersion]*part, len(hashes))
	for gv, hash := range hashes {
		if p := h.parts[gv]; p != nil && p.hash == hash {
			next[gv] = p
		} else {
			next[gv] = h.newPart(gv, hash)
		}
	}
	h.parts = next
	return next
}

func (h *Handler) newPart(gv schema.GroupVersion, hash string) *part {
	p := &part{hash: hash}
	encoded := sync.OnceValues(func() ([]byte, error) {
		doc, err := h.custom.OpenAPIV3(gv)
		if err != nil {
			return nil, err
		}
		data, err := json.Marshal(doc)
		if err != nil {
			return nil, fmt.Errorf("encode document of %s: %w", gv, err)
		}
		return data, nil
	})
	// The hash in the index is also the ETag: it exists before the document is built.
	withHash := func(data []byte) *document {
		doc := newDocument(data)
		doc.etag = hash
		return doc
	}
	p.v3JSON = sync.OnceValues(func() (*document, error) {
		data, err := encoded()
		if err != nil {
			return nil, err
		}
		return withHash(data), nil
	})
	p.v3Proto = sync.OnceValues(func() (*document, error) {
		data, err := encoded()
		if err != nil {
			return nil, err
		}
		pb, err := handler3.ToV3ProtoBinary(data)
		if err != nil {
			return nil, fmt.Errorf("encode document of %s: %w", gv, err)
		}
		return withHash(pb), nil
	})
	p.v2 = sync.OnceValues(func() (*fragment, error) { return h.newFragment(gv) })
	return p
}

func (h *Handler) newFragment(gv schema.GroupVersion) (*fragment, error) {
	doc, err := h.custom.OpenAPIV2(gv)
	if err != nil {
		return nil, err
	}
	static, err := h.static()
	if err != nil {
		return nil, err
	}
	// The packed parts already contain what custom kinds share with Kubernetes' own (ObjectMeta,
	// query parameters).
	add := &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		// The parser requires a title, which is removed below.
		Swagger: "2.0", Info: &spec.Info{InfoProps: spec.InfoProps{Title: "-", Version: "-"}}, Paths: doc.Paths,
		Definitions: spec.Definitions{}, Parameters: map[string]spec.Parameter{},
	}}
	for name, s := range doc.Definitions {
		if !static[name] {
			add.Definitions[name] = s
		}
	}
	for name, p := range doc.Parameters {
		if !static[name] {
			add.Parameters[name] = p
		}
	}
	f := &fragment{}
	for _, m := range []struct {
		into *[]byte
		from any
	}{{&f.paths, doc.Paths}, {&f.definitions, add.Definitions}, {&f.parameters, add.Parameters}} {
		data, err := json.Marshal(m.from)
		if err != nil {
			return nil, fmt.Errorf("encode document of %s: %w", gv, err)
		}
		*m.into = data[1 : len(data)-1]
	}
	f.proto = sync.OnceValues(func() ([]byte, error) {
		data, err := json.Marshal(add)
		if err != nil {
			return nil, fmt.Errorf("encode document of %s: %w", gv, err)
		}
		parsed, err := openapiv2.ParseDocument(data)
		if err != nil {
			return nil, fmt.Errorf("encode document of %s: %w", gv, err)
		}
		parsed.Swagger, parsed.Info = "", nil
		return proto.Marshal(parsed)
	})
	return f, nil
}

// staticNames returns the definitions and parameters of the packed v2 document.
func (h *Handler) staticNames() (map[string]bool, error) {
	a, err := h.archive()
	if err != nil || a.packed == "" {
		return nil, err
	}
	data, err := a.plain("v2/names")
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for name := range strings.SplitSeq(string(data), "\n") {
		names[name] = true
	}
	return names, nil
}
