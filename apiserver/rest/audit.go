package rest

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"sigs.k8s.io/yaml"

	"kelson.dev/apiserver/rest/wire"
)

// recordHub adds the decoded object of a request to the audit record.
func (s *scope) recordHub(hub runtime.Object) error {
	if _, ok := wire.Audited(s.req, auditinternal.LevelMetadata); !ok {
		return nil
	}
	obj, err := s.res.Codec.ToVersion(hub, s.version)
	if err != nil {
		return err
	}
	s.record(obj)
	return nil
}

// record adds the versioned object of a request to the audit record.
func (s *scope) record(obj runtime.Object) {
	if _, ok := wire.Audited(s.req, auditinternal.LevelMetadata); ok {
		gvr := s.res.GroupResource().WithVersion(s.version)
		audit.LogRequestObject(s.req.Context(), obj, obj.GetObjectKind().GroupVersionKind().GroupVersion(), gvr,
			s.info.Subresource, wire.AuditEncoder{})
	}
}

// recordPatch adds a patch to the audit record, as JSON. A malformed patch is rejected later and
// not recorded.
func (p *patcher) recordPatch() {
	ac, ok := wire.Audited(p.req, auditinternal.LevelRequest)
	if !ok {
		return
	}
	body := p.body
	var err error
	switch p.kind {
	case types.ApplyYAMLPatchType:
		body, err = yaml.YAMLToJSON(body)
	case types.ApplyCBORPatchType:
		var content any
		if err = cbor.Unmarshal(body, &content); err == nil {
			body, err = json.Marshal(content)
		}
	}
	if err == nil {
		ac.LogRequestPatch(body)
	}
}
