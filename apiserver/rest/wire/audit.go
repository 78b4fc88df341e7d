package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/client-go/kubernetes/scheme"

	"kelson.dev/apiserver/resource"
)

// Audited reports whether the audit record of a request contains its object or response. Without
// auditing the check is cheap.
func Audited(req *http.Request, level auditinternal.Level) (*audit.AuditContext, bool) {
	ac := audit.AuditContextFrom(req.Context())
	if ac == nil || !ac.Enabled() || ac.GetEventLevel().Less(level) {
		return nil, false
	}
	return ac, true
}

// AuditEncoder encodes versioned objects for the audit record.
type AuditEncoder struct{}

var _ runtime.NegotiatedSerializer = AuditEncoder{}

// SupportedMediaTypes returns JSON.
func (e AuditEncoder) SupportedMediaTypes() []runtime.SerializerInfo {
	return []runtime.SerializerInfo{{MediaType: runtime.ContentTypeJSON}}
}

// EncoderForVersion returns the encoder itself, because objects have the recorded version already.
func (e AuditEncoder) EncoderForVersion(runtime.Encoder, runtime.GroupVersioner) runtime.Encoder {
	return e
}

// DecoderToVersion is never called.
func (AuditEncoder) DecoderToVersion(decoder runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return decoder
}

// Encode writes JSON.
func (AuditEncoder) Encode(obj runtime.Object, w io.Writer) error {
	return json.NewEncoder(w).Encode(obj)
}

// Identifier implements runtime.Encoder.
func (AuditEncoder) Identifier() runtime.Identifier { return "audit" }

// recordAnswer adds a response to the audit event if the policy requests responses. It always adds
// a Status.
func recordAnswer(req *http.Request, f Format, gvk schema.GroupVersionKind, parts [][]byte) {
	level := auditinternal.LevelRequestResponse
	if gvk == StatusKind() {
		level = auditinternal.LevelMetadata
	}
	if _, ok := Audited(req, level); !ok {
		return
	}
	obj, err := readAnswer(f, gvk, bytes.Join(parts, nil))
	if err != nil {
		// This is unexpected, because the client got the same bytes. Record the event without them.
		obj = &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Message: fmt.Sprintf("the response cannot be recorded: %v", err)}
	}
	audit.LogResponseObject(req.Context(), obj, gvk.GroupVersion(), AuditEncoder{})
}

// readAnswer decodes a response that is about to be sent.
func readAnswer(f Format, gvk schema.GroupVersionKind, body []byte) (runtime.Object, error) {
	switch f.Bare() {
	case resource.MediaProtobuf:
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		return obj, err
	case resource.MediaCBOR:
		var content map[string]any
		if err := cbor.Unmarshal(body, &content); err != nil {
			return nil, err
		}
		var err error
		if body, err = json.Marshal(content); err != nil {
			return nil, err
		}
	}
	switch {
	case gvk == StatusKind():
		status := &metav1.Status{}
		return status, json.Unmarshal(body, status)
	case gvk.Kind == "Table" && gvk.Group == metav1.GroupName:
		return readTable(body)
	}
	obj, _, err := unstructured.UnstructuredJSONScheme.Decode(body, &gvk, nil)
	return obj, err
}

// readTable also decodes the objects in rows, so that fields omitted from objects are omitted
// there.
func readTable(body []byte) (runtime.Object, error) {
	table := &metav1.Table{}
	if err := json.Unmarshal(body, table); err != nil {
		return nil, err
	}
	for i := range table.Rows {
		raw := table.Rows[i].Object.Raw
		if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
			continue
		}
		obj, _, err := unstructured.UnstructuredJSONScheme.Decode(raw, nil, nil)
		if err != nil {
			return nil, err
		}
		table.Rows[i].Object = runtime.RawExtension{Object: obj}
	}
	return table, nil
}
