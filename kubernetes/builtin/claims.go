package builtin

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
	deviceapi "k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"

	"kelson.dev/apiserver/resource"
)

// claims returns shared with strategies for ResourceClaims and their templates that allow admin
// access only in namespaces with the label for it, and that require permission to write certain
// parts of a claim's status. It does not modify shared, which all control planes use.
func (k *kinds) claims(shared []*resource.Resource) []*resource.Resource {
	out := slices.Clone(shared)
	for i, r := range out {
		if r.Group != deviceapi.GroupName {
			continue
		}
		copied := *r
		switch r.Plural {
		case "resourceclaims":
			strategy := resourceclaim.NewStrategy(claimNamespaces{kinds: k}, k.authorizer())
			copied.Strategy = strategy
			copied.Subresources = slices.Clone(r.Subresources)
			for s := range copied.Subresources {
				if sub := &copied.Subresources[s]; sub.Name == "status" {
					sub.Update = &resource.UpdateView{Strategy: resourceclaim.NewStatusStrategy(strategy)}
				}
			}
		case "resourceclaimtemplates":
			copied.Strategy = resourceclaimtemplate.NewStrategy(claimNamespaces{kinds: k})
		default:
			continue
		}
		out[i] = &copied
	}
	return out
}

// claimNamespaces reads namespaces for the strategies of claims. They call only its method Get.
type claimNamespaces struct {
	client.NamespaceInterface
	kinds *kinds
}

func (n claimNamespaces) Get(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	namespaces := n.kinds.resource("", "namespaces")
	hub, err := n.kinds.cfg.Objects().Get(ctx, namespaces, "", name)
	if err != nil {
		return nil, err
	}
	versioned, err := namespaces.Codec.ToVersion(hub, "v1")
	if err != nil {
		return nil, err
	}
	return versioned.(*corev1.Namespace), nil
}
