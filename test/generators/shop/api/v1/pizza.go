package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kelson.dev/test/generators/shop/api/shared"
)

// Size is how large a pizza is.
// +kubebuilder:validation:Enum=Small;Large
// +enum
type Size string

// The sizes.
const (
	// Small is for one.
	Small Size = "Small"
	// Large is for two.
	Large Size = "Large"
)

// Topping is something on the pizza.
type Topping struct {
	// name of it.
	Name string `json:"name"`
	// grams of it.
	// +default=30
	// +optional
	Grams int32 `json:"grams,omitempty"`
	// extra things to know.
	// +optional
	Notes map[string]string `json:"notes,omitempty"`
}

// Baking is how it is baked. It is embedded.
type Baking struct {
	// degrees of the oven.
	// +default=250
	// +optional
	Degrees *int32 `json:"degrees,omitempty"`
	// duration in the oven.
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
}

// PizzaSpec is an order.
type PizzaSpec struct {
	Baking `json:",inline"`

	// size of the pizza.
	// +default="Large"
	// +optional
	Size Size `json:"size,omitempty"`
	// toppings, by name.
	// +listType=map
	// +listMapKey=name
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +optional
	Toppings []Topping `json:"toppings,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// price of it.
	// +optional
	Price *shared.Money `json:"price,omitempty"`
	// slices at least.
	// +optional
	Slices shared.Limited[int32] `json:"slices,omitempty"`
	// weight of the dough.
	// +optional
	Weight *resource.Quantity `json:"weight,omitempty"`
	// door is a port's number or name.
	// +optional
	Door *intstr.IntOrString `json:"door,omitempty"`
	// address is who gets it.
	// +optional
	Address *corev1.LocalObjectReference `json:"address,omitempty"`
	// tolerations of the guest.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// selector of the cooks.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// matrix of olives.
	// +optional
	Matrix [][]int32 `json:"matrix,omitempty"`
	// seal on the box.
	// +optional
	Seal []byte `json:"seal,omitempty"`
	// prices by size.
	// +optional
	Prices map[Size]shared.Money `json:"prices,omitempty"`
}

// PizzaStatus is how far it is.
type PizzaStatus struct {
	// conditions of the pizza.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// bakedAt is when it came out.
	// +optional
	BakedAt *metav1.Time `json:"bakedAt,omitempty"`
	// slices that there are.
	// +optional
	Slices int32 `json:"slices,omitempty"`
}

// Pizza is one that somebody wants.
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.slices.limit,statuspath=.status.slices
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name=Size,type=string,JSONPath=`.spec.size`
type Pizza struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the order.
	Spec PizzaSpec `json:"spec"`
	// status is how far it is.
	// +optional
	Status PizzaStatus `json:"status,omitempty"`
}

// PizzaList is several.
// +kubebuilder:object:root=true
type PizzaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Pizza `json:"items"`
}

// OvenSpec is what an oven can do.
type OvenSpec struct {
	// heat at most.
	// +default={"degrees": 300}
	// +optional
	Heat *Baking `json:"heat,omitempty"`
}

// Oven is one of the shop's.
// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=get,list,watch,create,delete
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
type Oven struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec of the oven.
	Spec OvenSpec `json:"spec,omitempty"`
}

// OvenList is several.
// +kubebuilder:object:root=true
type OvenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Oven `json:"items"`
}
