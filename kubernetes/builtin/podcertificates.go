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

// signed gives PodCertificateRequests a status that only those may write who may sign for the signer which a request names. The Resources given
// are shared by all control planes and stay as they are.
func (k *kinds) signed(shared []*resource.Resource) []*resource.Resource {
	out := slices.Clone(shared)
	for i, r := range out {
		if r.Plural != "podcertificaterequests" || r.Group != certificates.GroupName {
			continue
		}
		own := *r
		own.Subresources = slices.Clone(r.Subresources)
		for s := range own.Subresources {
			if sub := &own.Subresources[s]; sub.Name == "status" {
				sub.Update = &resource.UpdateView{Strategy: podcertificaterequest.NewStatusStrategy(podCertificates, k.authorizer(), clock.RealClock{})}
			}
		}
		out[i] = &own
	}
	return out
}

// podCertificateFields are the fields by which PodCertificateRequests can be selected: a kubelet follows those of its node, a signer its own.
func podCertificateFields(r *certificates.PodCertificateRequest) fields.Set {
	return generic.AddObjectMetaFieldsSet(fields.Set{
		"spec.signerName": r.Spec.SignerName, "spec.podName": r.Spec.PodName, "spec.nodeName": string(r.Spec.NodeName),
	}, &r.ObjectMeta, true)
}
