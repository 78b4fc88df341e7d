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
func (in *input) recordHub(hub runtime.Object) error {
	if _, ok := wire.Audited(in.req, auditinternal.LevelMetadata); !ok {
		return nil
	}
	obj, err := in.on.res.Codec.ToVersion(hub, in.on.version)
	if err != nil {
		return err
	}
	in.record(obj)
	return nil
}

// record adds the versioned object of a request to the audit record.
func (in *input) record(obj runtime.Object) {
	if _, ok := wire.Audited(in.req, auditinternal.LevelMetadata); ok {
		gvr := in.on.res.GroupResource().WithVersion(in.on.version)
		audit.LogRequestObject(in.req.Context(), obj, obj.GetObjectKind().GroupVersionKind().GroupVersion(), gvr,
			in.on.info.Subresource, wire.AuditEncoder{})
	}
}

// recordPatch adds a patch to the audit record, as JSON. A malformed patch is rejected later and
// not recorded.
func (p *patcher) recordPatch() {
	ac, ok := wire.Audited(p.s.in.req, auditinternal.LevelRequest)
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
