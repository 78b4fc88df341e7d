package wire

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/serving/coalesce"
)

// gzipThreshold is the size in bytes above which a response is compressed for clients that accept
// it.
const gzipThreshold = 128 << 10

// zipping has compressors. Each has a megabyte of buffers.
var zipping = sync.Pool{New: func() any {
	zip, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // fails only for unknown levels
	return zip
}}

// gatherThreshold is the minimum size, in bytes, of responses that span several TLS records.
const gatherThreshold = 32 << 10

// Object responds with one object of kind gvk, whose bare encoding is bare.
func Object(w http.ResponseWriter, req *http.Request, code int, f Format, gvk schema.GroupVersionKind, bare []byte) {
	parts, err := whole(f.Bare(), gvk, bare)
	finish(w, req, code, f, gvk, parts, err)
}

// Parts is like Object, for an encoding in several parts, in JSON. It does not copy them.
func Parts(w http.ResponseWriter, req *http.Request, code int, f Format, gvk schema.GroupVersionKind, parts [][]byte) {
	finish(w, req, code, f, gvk, append(parts, []byte("\n")), nil)
}

// List responds with a list of objects, given by their bare encodings. If untyped names a kind, its
// JSON items have no kind and apiVersion, like those of built-in kinds in Kubernetes.
func List(w http.ResponseWriter, req *http.Request, code int, f Format, gvk schema.GroupVersionKind,
	meta metav1.ListMeta, items [][]byte, untyped schema.GroupVersionKind) {
	var without []byte
	if !untyped.Empty() {
		without = typePrefix(untyped)
	}
	parts, err := list(f.Bare(), gvk, meta, items, without)
	finish(w, req, code, f, gvk, parts, err)
}

// MetadataList responds in JSON with a PartialObjectMetadataList, gvk, whose items have the given
// metadata. It does not copy them.
func MetadataList(w http.ResponseWriter, req *http.Request, f Format, gvk schema.GroupVersionKind, meta metav1.ListMeta,
	metadata [][]byte) {
	parts, err := metadataList(gvk, meta, metadata)
	finish(w, req, http.StatusOK, f, gvk, parts, err)
}

func finish(w http.ResponseWriter, req *http.Request, code int, f Format, gvk schema.GroupVersionKind, parts [][]byte,
	err error) {
	if err == nil {
		recordAnswer(req, f, gvk, parts)
		parts, err = derive(f, parts)
	}
	if err != nil {
		Error(w, req, err)
		return
	}
	w.Header().Set("Content-Type", f.Media)
	send(w, req, code, parts)
}

// derive converts the finished JSON to YAML or indented JSON if the client requested it.
func derive(f Format, parts [][]byte) ([][]byte, error) {
	switch {
	case f.Media == resource.MediaYAML:
		body, err := yaml.JSONToYAML(bytes.Join(parts, nil))
		return [][]byte{body}, err
	case f.Media == resource.MediaJSON && f.Pretty:
		var out bytes.Buffer
		err := json.Indent(&out, bytes.TrimSuffix(bytes.Join(parts, nil), []byte("\n")), "", "  ")
		return [][]byte{out.Bytes()}, err
	}
	return parts, nil
}

// send writes a body, compressed if it is large and the client accepts gzip. It ignores errors of
// the connection, because no response can report them.
func send(w http.ResponseWriter, req *http.Request, code int, parts [][]byte) {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if size > gatherThreshold {
		defer coalesce.Begin(req.Context())()
	}
	if size > gzipThreshold && AcceptsGzip(req) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Add("Vary", "Accept-Encoding")
		w.WriteHeader(code)
		zip := zipping.Get().(*gzip.Writer)
		defer func() {
			zip.Reset(nil)
			zipping.Put(zip)
		}()
		zip.Reset(w)
		for _, p := range parts {
			if _, err := zip.Write(p); err != nil {
				return
			}
		}
		_ = zip.Close()
		return
	}
	// without Content-Length, net/http sends large bodies in chunks
	w.Header().Set("Content-Length", strconv.Itoa(size))
	w.WriteHeader(code)
	if len(parts) == 1 {
		_, _ = w.Write(parts[0])
		return
	}
	// Join small parts, because each write may become a packet.
	joined := joining.Get().(*[]byte)
	defer joining.Put(joined)
	buf := (*joined)[:0]
	for _, p := range parts {
		if len(buf) > 0 && len(buf)+len(p) > cap(buf) {
			if _, err := w.Write(buf); err != nil {
				return
			}
			buf = buf[:0]
		}
		if len(p) <= cap(buf) {
			buf = append(buf, p...)
		} else if _, err := w.Write(p); err != nil {
			return
		}
	}
	if len(buf) > 0 {
		_, _ = w.Write(buf)
	}
}

// joining holds the buffers of responses that are being sent: four TLS records each.
var joining = sync.Pool{New: func() any { b := make([]byte, 0, 64<<10); return &b }}

// AcceptsGzip reports whether the client accepts gzip.
func AcceptsGzip(req *http.Request) bool {
	for encoding := range strings.SplitSeq(req.Header.Get("Accept-Encoding"), ",") {
		if strings.EqualFold(strings.TrimSpace(encoding), "gzip") {
			return true
		}
	}
	return false
}
