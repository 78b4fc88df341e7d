package openapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// document is one encoding of one document.
type document struct {
	etag  string
	plain func() ([]byte, error)
	gzip  func() ([]byte, error)
}

// newDocument returns a document. It is compressed on first use.
func newDocument(data []byte) *document {
	return &document{
		etag:  fmt.Sprintf("%X", sha256.Sum256(data)),
		plain: func() ([]byte, error) { return data, nil },
		gzip:  sync.OnceValues(func() ([]byte, error) { return compress(data) }),
	}
}

func compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil { // before Bytes: it writes the tail
		return nil, err
	}
	return out.Bytes(), nil
}

// documents holds the documents of one state of the registry.
type documents struct {
	generation uint64
	archive    *archive
	base       func() (*base, error)
	index      *document
	hashes     map[string]string // path → hash, for v3
	custom     map[string]*part  // path → documents of custom kinds
	merged     *Others           // nil: none
	others     map[string]Other  // path → documents of other servers
	v2         map[string]func() (*document, error)
}

// documents returns the documents of the registry's current set.
func (h *Handler) documents(a *archive) *documents {
	for {
		set, others, existing := h.registry.Current(), h.others(), h.current.Load()
		if existing != nil && existing.generation >= set.Generation && existing.merged == others {
			return existing
		}
		served := map[schema.GroupVersion]bool{}
		for _, res := range set.All() {
			for _, v := range res.Versions {
				served[schema.GroupVersion{Group: res.Group, Version: v.Name}] = true
			}
		}
		if next := h.newDocuments(a, set.Generation, served, others); h.current.CompareAndSwap(existing, next) {
			return next
		}
	}
}

func (h *Handler) newDocuments(a *archive, generation uint64, served map[schema.GroupVersion]bool,
	others *Others) *documents {
	d := &documents{generation: generation, archive: a, base: h.base, hashes: map[string]string{},
		custom: map[string]*part{},
		merged: others, others: map[string]Other{}}
	if others != nil {
		for gv, other := range *others {
			delete(served, gv)
			d.others[pathOf(gv)] = other
		}
	}
	show := shown(served)
	for path, entry := range a.paths("v3/", ".json") {
		if show(path) {
			d.hashes[path] = entry.Comment
		}
	}
	if h.custom != nil {
		for gv, p := range h.refresh(h.custom.OpenAPIHashes()) {
			path := "apis/" + gv.String()
			if _, packed := d.hashes[path]; served[gv] && !packed {
				d.hashes[path], d.custom[path] = p.hash, p
			}
		}
	}
	for path, other := range d.others {
		if other.V3Hash != "" {
			d.hashes[path] = other.V3Hash
		}
	}
	data, err := index(d.hashes)
	d.index = newDocument(data)
	if err != nil { // cannot happen: the index consists of strings
		d.index.plain = func() ([]byte, error) { return nil, err }
		d.index.gzip = d.index.plain
	}
	d.v2 = map[string]func() (*document, error){
		jsonType: sync.OnceValues(func() (*document, error) { return d.joinJSON(show) }),
		protoV2:  sync.OnceValues(func() (*document, error) { return d.joinProto(show) }),
	}
	return d
}

// shown returns which packed paths are shown: group versions in the set, their groups, and paths
// that are not resources.
func shown(served map[schema.GroupVersion]bool) func(path string) bool {
	paths := map[string]bool{"api": true, "apis": true, "version": true, "openid/v1/jwks": true,
		".well-known/openid-configuration": true}
	for gv := range served {
		if gv.Group == "" {
			paths["api/"+gv.Version] = true
			continue
		}
		paths["apis/"+gv.Group], paths["apis/"+gv.String()] = true, true
	}
	return func(path string) bool { return paths[path] }
}

// v3 returns the document at a path in hashes.
func (d *documents) v3(path, mediaType string) (*document, error) {
	if p, ok := d.custom[path]; ok {
		if mediaType == jsonType {
			return p.v3JSON()
		}
		return p.v3Proto()
	}
	if other, ok := d.others[path]; ok && other.V2 != nil {
		converted, err := other.V2.v3()
		switch {
		case err != nil:
			return nil, err
		case mediaType == jsonType:
			return converted.json, nil
		}
		return converted.proto, nil
	}
	name := "v3/" + path + ".json"
	if mediaType != jsonType {
		name = strings.TrimSuffix(name, ".json") + ".pb"
	}
	return &document{
		etag:  d.hashes[path],
		plain: func() ([]byte, error) { return d.archive.plain(name) },
		gzip:  func() ([]byte, error) { return d.archive.gzip(name) },
	}, nil
}
