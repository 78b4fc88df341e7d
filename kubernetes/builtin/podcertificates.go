package builtin

import (
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/kubernetes/pkg/registry/certificates/podcertificaterequest"
	"k8s.io/utils/clock"

	"kelson.dev/apiserver/resource"
)

// podCertificates is the strategy of PodCertificateRequests.
var podCertificates = podcertificaterequest.NewStrategy()

// signed returns shared with a status strategy for PodCertificateRequests that requires the
// permission to sign for the signer named in the request. It does not modify shared, which all
// control planes use.
func (k *kinds) signed(shared []*resource.Resource) []*resource.Resource {
	out := slices.Clone(shared)
	for i, r := range out {
		if r.Plural != "podcertificaterequests" || r.Group != certificates.GroupName {
			continue
		}
		copied := *r
		copied.Subresources = slices.Clone(r.Subresources)
		for s := range copied.Subresources {
			if sub := &copied.Subresources[s]; sub.Name == "status" {
				sub.Update = &resource.UpdateView{Strategy: podcertificaterequest.NewStatusStrategy(podCertificates,
					k.authorizer(), clock.RealClock{})}
			}
		}
		out[i] = &copied
	}
	return out
}

// podCertificateFields returns the selectable fields of PodCertificateRequests. Kubelets select by
// node, signers by signer name.
func podCertificateFields(r *certificates.PodCertificateRequest) fields.Set {
	return generic.AddObjectMetaFieldsSet(fields.Set{
		"spec.signerName": r.Spec.SignerName, "spec.podName": r.Spec.PodName, "spec.nodeName": string(r.Spec.NodeName),
	}, &r.ObjectMeta, true)
}
