package crd

import (
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	strategies "k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/registry/rest"

	"kelson.dev/apiserver/resource"
)

// sharedScheme returns a scheme with only the types of apiextensions.k8s.io. It never changes, so
// all control planes of a process share it.
var sharedScheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	return scheme
})

// sharedCodec returns the codec of definitions, which all control planes of a process share.
var sharedCodec = sync.OnceValue(func() *definitionCodec { return newDefinitionCodec(sharedScheme()) })

// newResource returns the Resource of CustomResourceDefinitions.
func (d *Definitions) newResource() *resource.Resource {
	table := tableconvertor.New()
	return &resource.Resource{
		Group:          apiextensionsv1.GroupName,
		Plural:         "customresourcedefinitions",
		Singular:       "customresourcedefinition",
		Kind:           "CustomResourceDefinition",
		ListKind:       "CustomResourceDefinitionList",
		ShortNames:     []string{"crd", "crds"},
		Categories:     []string{"api-extensions"},
		Versions:       []resource.Version{{Name: "v1"}},
		StorageVersion: "v1",
		HashVersion:    "v1beta1",
		StoragePath:    apiextensionsv1.GroupName + "/customresourcedefinitions",
		Behavior: resource.Behavior{
			Delete: resource.DeleteBehavior{Preconditions: "precondition", NoPropagation: true, NoGracePeriod: true},
		},
		Codec:    sharedCodec(),
		Strategy: strategies.NewStrategy(d.scheme),
		Table:    func(string) upstream.TableConvertor { return table },
		Subresources: []resource.Subresource{{
			Name:   "status",
			Update: &resource.UpdateView{Strategy: strategies.NewStatusStrategy(d.scheme)},
		}},
		Hooks: d.hooks(),
		Owner: "apiextensions",
	}
}
