package quota

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// DeviceClasses is the name of the resource of DeviceClasses in the store. They map extended
// resources to devices.
const DeviceClasses = "deviceclasses.resource.k8s.io"

var claims = resourcev1.SchemeGroupVersion.WithResource("resourceclaims")

// claimEvaluator returns the evaluator of claims. A claim counts for its device class, and for the
// extended resource of the class, unless it was created for a pod that already counts.
func claimEvaluator(sn *store.Snapshot, listers upstream.ListerForResourceFunc) (upstream.Evaluator, error) {
	classes := extendedresourcecache.NewExtendedResourceCache(klog.Background())
	for class, err := range derived.List[resourcev1.DeviceClass](sn, DeviceClasses, "") {
		if err != nil {
			return nil, fmt.Errorf("create quota evaluators: %w", err)
		}
		classes.OnAdd(class, true)
	}
	return core.NewResourceClaimEvaluator(listers, classes, podLister{sn: sn},
		func(namespace string, pod types.UID) (owned []*resourcev1.ResourceClaim, err error) {
			for claim, err := range derived.List[resourcev1.ResourceClaim](sn, claims.GroupResource().String(),
				namespace) {
				if err != nil {
					return nil, err
				}
				owner := metav1.GetControllerOfNoCopy(claim)
				if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true" && owner != nil &&
					owner.APIVersion == "v1" && owner.Kind == "Pod" && owner.UID == pod {
					owned = append(owned, claim)
				}
			}
			return owned, nil
		}), nil
}

// podLister reads pods from a snapshot. The evaluator reads only single pods.
type podLister struct {
	corelisters.PodLister
	sn *store.Snapshot
}

func (l podLister) Pods(namespace string) corelisters.PodNamespaceLister {
	return podsOf{sn: l.sn, namespace: namespace}
}

type podsOf struct {
	corelisters.PodNamespaceLister
	sn        *store.Snapshot
	namespace string
}

func (l podsOf) Get(name string) (*corev1.Pod, error) {
	return derived.Get[corev1.Pod](l.sn, "pods", l.namespace, name)
}
